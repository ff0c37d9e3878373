import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.line import format_refusal, parse_refusal
from demur.emit.claude_code import from_claude_code, to_claude_code, to_hook_exit
from demur.integrations.claude_code.emergency import HookExit, fallback_deny, refusal_line
from demur.model.refusal import Refusal

LINE = "REFUSED: INTERNAL_ERROR: the hook failed"


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "UserPromptSubmit"])
def test_the_no_is_the_one_that_emitting_the_refusal_gives(event: str) -> None:
    refusal = Refusal.from_code("INTERNAL_ERROR", "the hook failed")

    assert json.loads(fallback_deny(event, LINE).stdout) == to_claude_code(refusal, event=event)


def test_an_event_that_nobody_could_read_ends_with_the_status_that_blocks() -> None:
    exits = to_hook_exit(Refusal.from_code("INTERNAL_ERROR", "the hook failed"))

    assert fallback_deny(None, LINE) == HookExit(exits.status, stderr=exits.stderr)


def test_what_can_refuse_nothing_only_tells() -> None:
    assert json.loads(fallback_deny("Stop", LINE).stdout) == {"systemMessage": LINE}
    assert fallback_deny("Stop", LINE).status == 0


def test_what_a_tool_returned_is_withheld_unread() -> None:
    output = json.loads(fallback_deny("PostToolUse", LINE, {"tool_response": {"out": "x"}}).stdout)

    assert output["decision"] == "block"
    assert output["hookSpecificOutput"]["updatedToolOutput"] == {"out": LINE}


def deep() -> Any:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("members", [{}, {"tool_response": deep()}], ids=["unknown", "too deep"])
def test_what_cannot_be_withheld_ends_the_run(members: dict[str, Any]) -> None:
    output = json.loads(fallback_deny("PostToolUse", LINE, members).stdout)

    assert output == {"continue": False, "stopReason": LINE}
    assert json.loads(fallback_deny("PostToolBatch", LINE).stdout) == output


def test_after_a_failure_the_model_is_told() -> None:
    special = json.loads(fallback_deny("PostToolUseFailure", LINE).stdout)["hookSpecificOutput"]

    assert special == {"hookEventName": "PostToolUseFailure", "additionalContext": LINE}


def test_the_line_is_the_one_of_the_contract() -> None:
    assert refusal_line("INTERNAL_ERROR", "a b") == format_refusal("INTERNAL_ERROR", "a b")


def test_a_detail_is_one_line_of_bounded_length() -> None:
    line = refusal_line("POLICY_INVALID", "a\nb" + "x" * 10_000)

    assert "\n" not in line
    assert len(line) < 400


@given(st.sampled_from(["PreToolUse", "UserPromptSubmit", "PermissionRequest"]), st.text())
def test_nothing_passes_without_a_judgement(event: str, detail: str) -> None:
    """INVARIANT: without a judgement, no action passes that a hook can still stop."""
    line = refusal_line("INTERNAL_ERROR", detail)
    ending = fallback_deny(event, line)
    refusal = from_claude_code(json.loads(ending.stdout))

    assert ending.status == 0
    assert parse_refusal(line) is not None
    assert refusal is not None
    assert refusal.code == "INTERNAL_ERROR"
    assert fallback_deny(None, line).status == 2
