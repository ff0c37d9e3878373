from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.ruling import CheckResult
from demur.integrations.claude_code.answering import HookStyle, hook_output
from demur.integrations.claude_code.hook import Hook
from demur.model.refusal import Refusal

REFUSING = [str(entry.code) for entry in Registry.load() if entry.refusal_class is not None]
STOPPABLE = ["PreToolUse", "UserPromptSubmit"]


def refused(code: str, **more: Any) -> CheckResult:
    return CheckResult(
        Surface.TOOL_CALL, allowed=False, refusal=Refusal.from_code(code, "why"), **more
    )


def hook(event: str, **members: Any) -> Hook:
    return Hook(event, members)


def special(output: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = output["hookSpecificOutput"]
    return inner


@given(
    st.sampled_from(STOPPABLE),
    st.one_of(st.none(), st.sampled_from(REFUSING)),
    st.booleans(),
    st.booleans(),
)
def test_nothing_passes_that_is_not_allowed(
    event: str, code: str | None, ask: bool, halt: bool
) -> None:
    """INVARIANT: a hook lets an action pass only if the ruling allows it, or a person is asked."""
    ruling = CheckResult(Surface.TOOL_CALL) if code is None else refused(code)
    output = hook_output(hook(event), ruling, HookStyle(ask=ask, halt=halt))
    decision = output.get("hookSpecificOutput", {}).get("permissionDecision")
    stopped = decision in {"deny", "ask"} or output.get("decision") == "block"

    assert decision != "allow"
    assert stopped is (code is not None)
    assert decision != "ask" or (ask and ruling.needs_approval)


def test_a_model_hears_the_line_and_the_way_on() -> None:
    ruling = refused("DESTRUCTIVE_ACTION")
    output = hook_output(hook("PreToolUse"), ruling)

    assert special(output)["permissionDecision"] == "deny"
    assert special(output)["permissionDecisionReason"] == ruling.model_message
    assert "continue" not in output


def test_a_hard_block_ends_the_run_in_words_for_a_person() -> None:
    ruling = refused("RCE_RISK")

    assert hook_output(hook("PreToolUse"), ruling)["continue"] is False
    assert hook_output(hook("PreToolUse"), ruling)["stopReason"].startswith(ruling.user_text)
    assert "continue" not in hook_output(hook("PreToolUse"), ruling, HookStyle(halt=False))


def test_what_waits_for_approval_is_asked_if_the_operator_says_so() -> None:
    ruling = refused("EXFILTRATION_RISK")
    output = hook_output(hook("PreToolUse"), ruling, HookStyle(ask=True))

    assert special(output)["permissionDecision"] == "ask"
    assert special(output)["permissionDecisionReason"] == f"{ruling.user_text}\n{ruling.line}"
    assert special(hook_output(hook("PreToolUse"), ruling))["permissionDecision"] == "deny"


def test_a_person_reads_why_a_prompt_was_refused() -> None:
    ruling = refused("CONTENT_CYBER")
    output = hook_output(hook("UserPromptSubmit"), ruling)

    assert output["decision"] == "block"
    assert output["reason"] == f"{ruling.user_text}\n{ruling.line}"
    assert special(output)["suppressOriginalPrompt"] is True


def test_what_a_tool_returned_is_withheld() -> None:
    output = hook_output(
        hook("PostToolUse", tool_input={"file_path": "/a"}, tool_response={"content": "orders"}),
        refused("CONTEXT_INJECTION"),
    )

    assert output["decision"] == "block"
    assert special(output)["updatedToolOutput"] == {"content": "REFUSED: CONTEXT_INJECTION: why"}


def test_input_that_is_no_object_knows_no_paths() -> None:
    output = hook_output(
        hook("PostToolUse", tool_input="x", tool_response="orders"), refused("CONTEXT_INJECTION")
    )

    assert special(output)["updatedToolOutput"] == "REFUSED: CONTEXT_INJECTION: why"


def test_after_a_failure_the_model_is_told() -> None:
    ruling = refused("CONTEXT_INJECTION")
    output = hook_output(hook("PostToolUseFailure"), ruling)

    assert special(output)["additionalContext"] == ruling.model_message
    assert hook_output(hook("PostToolUseFailure"), refused("RCE_RISK"))["continue"] is False


def test_what_cannot_be_withheld_any_more_ends_the_run() -> None:
    for ruling in (refused("CONTEXT_INJECTION"), refused("GUARDRAIL_UNAVAILABLE")):
        output = hook_output(hook("PostToolBatch"), ruling)

        assert output["continue"] is False
        assert special(output)["additionalContext"] == ruling.model_message
        assert "continue" not in hook_output(hook("PostToolBatch"), ruling, HookStyle(halt=False))


def test_after_a_compaction_the_person_is_told() -> None:
    ruling = refused("CONTEXT_INJECTION")

    assert hook_output(hook("PostCompact"), ruling) == {
        "systemMessage": f"{ruling.user_text}\n{ruling.line}"
    }


def test_an_answer_is_to_be_said_otherwise() -> None:
    ruling = refused("SECRET_LEAK")

    assert hook_output(hook("Stop"), ruling) == {
        "decision": "block",
        "reason": ruling.model_message,
    }


def test_what_could_not_be_judged_does_not_end_the_run() -> None:
    assert "continue" not in hook_output(
        hook("PreToolUse"), refused(ReasonCode.GUARDRAIL_UNAVAILABLE)
    )


def test_limits_of_what_is_allowed_are_told() -> None:
    ruling = CheckResult(Surface.TOOL_CALL, constraints=("dry run", "one file"))

    assert special(hook_output(hook("PreToolUse"), ruling)) == {
        "hookEventName": "PreToolUse",
        "additionalContext": "Allowed within these limits: dry run, one file.",
    }


def test_help_for_somebody_in_need_is_shown_even_if_nothing_is_refused() -> None:
    ruling = CheckResult(Surface.INPUT, resources=("call 112",))

    assert hook_output(hook("UserPromptSubmit"), ruling) == {"systemMessage": "call 112"}


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "SomethingNew"])
def test_what_is_allowed_is_left_to_claude_code(event: str) -> None:
    assert hook_output(hook(event), CheckResult(Surface.TOOL_CALL)) == {}
