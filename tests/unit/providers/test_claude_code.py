from typing import Any

import msgspec
import pytest
from support.lookalikes import thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize, read_signal
from demur.providers.signals import SignalOutcome


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def pre_tool_use(decision: str, reason: str = "") -> dict[str, Any]:
    answer = {"permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}}


def test_deny_and_ask_decisions_have_their_codes() -> None:
    denied = normalized(pre_tool_use("deny", "not in this folder"))
    asked = normalized(pre_tool_use("ask"))

    assert (denied.code, denied.detail) == ("TOOL_NOT_ALLOWED", "not in this folder")
    assert denied.surface == "tool_call"
    assert asked.code == "APPROVAL_REQUIRED"


@pytest.mark.parametrize("decision", ["allow", "defer"])
def test_a_call_that_may_run_is_no_refusal(decision: str) -> None:
    assert normalize(pre_tool_use(decision, "fine")) is None


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_a_reason_that_carries_a_refusal_line_gives_its_code(decision: str) -> None:
    refusal = normalized(pre_tool_use(decision, "REFUSED: DESTRUCTIVE_ACTION: rm -rf /srv"))

    assert (refusal.code, refusal.detail) == ("DESTRUCTIVE_ACTION", "rm -rf /srv")
    assert refusal.surface == "tool_call"


def test_a_line_below_the_words_for_people_counts_too() -> None:
    words = "I can list the files instead.\nREFUSED: DESTRUCTIVE_ACTION: rm"

    assert normalized(pre_tool_use("deny", words)).code == "DESTRUCTIVE_ACTION"


def test_a_hook_that_blocks_or_halts() -> None:
    assert normalized({"decision": "block", "reason": "no"}).code == "POLICY_VIOLATION"
    assert normalized({"decision": "block", "reason": "REFUSED: RCE_RISK: x"}).code == "RCE_RISK"
    assert normalized({"continue": False, "stopReason": "enough"}).detail == "enough"
    assert normalized({"continue_": False, "stopReason": "REFUSED: RCE_RISK: x"}).code == "RCE_RISK"
    assert normalize({"continue": True}) is None
    assert normalize({"continue": False, "rows": []}) is None
    assert normalize({"decision": "approve", "reason": "fine"}) is None


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "SubagentStop"])
def test_a_block_that_keeps_nothing_from_happening_is_only_a_detection(event: str) -> None:
    output = {
        "hookSpecificOutput": {"hookEventName": event},
        "decision": "block",
        "reason": "go on",
    }
    signal = read_signal(output)

    assert normalize(output) is None
    assert signal is not None
    assert signal.outcome is SignalOutcome.DETECT_ONLY


def test_a_hook_on_a_permission_answers_for_the_person() -> None:
    decision = {"behavior": "deny", "message": "REFUSED: RCE_RISK: x"}
    output = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    assert normalized(output).code == "RCE_RISK"


def ran(event: str, exit_code: int, stderr: str = "") -> dict[str, Any]:
    record = {"type": "system", "subtype": "hook_response", "hook_event": event}
    return {**record, "exit_code": exit_code, "stderr": stderr, "stdout": "{}"}


def test_status_two_blocks_and_its_errors_are_the_reason() -> None:
    assert normalized(ran("PreToolUse", 2, "REFUSED: RCE_RISK: x\n")).code == "RCE_RISK"
    blocked = normalized(ran("UserPromptSubmit", 2, "not here"))
    assert (blocked.code, blocked.surface) == ("POLICY_VIOLATION", "input")


@pytest.mark.parametrize("status", [1, 127, 124])
def test_any_other_failure_blocks_nothing_so_nothing_was_judged(status: int) -> None:
    refusal = normalized(ran("PreToolUse", status, "REFUSED: RCE_RISK: not heeded"))

    assert (refusal.code, refusal.decided) == ("GUARDRAIL_UNAVAILABLE", False)


def test_a_hook_that_ended_well_or_could_not_block_is_no_refusal() -> None:
    assert normalize(ran("PreToolUse", 0)) is None
    assert normalize(ran("PostToolUse", 2, "too late")) is None
    assert normalize({"exit_code": 2, "stderr": "usage"}) is None


def test_the_result_of_the_permission_callback() -> None:
    denied = thing(
        "claude_agent_sdk.types",
        "PermissionResultDeny",
        behavior="deny",
        message="no",
        interrupt=False,
    )
    allowed = thing("claude_agent_sdk.types", "PermissionResultAllow", behavior="allow")

    assert (normalized(denied).code, normalized(denied).detail) == ("TOOL_NOT_ALLOWED", "no")
    assert normalize(allowed) is None


def test_tools_that_a_run_was_not_allowed_are_named_without_their_input() -> None:
    denial = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "cat secret.txt"}}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    refusal = normalized({**result, "permission_denials": [denial, denial]})

    assert (refusal.code, refusal.detail) == ("TOOL_NOT_ALLOWED", "not allowed: Bash")
    assert refusal.evidence == {"tool": "Bash", "count": 2, "left_out": ["tool_input"]}
    assert b"secret" not in msgspec.json.encode(refusal)
    assert normalize({**result, "permission_denials": []}) is None


def test_the_record_of_a_refused_turn_says_who_answered_instead() -> None:
    record = {"type": "system", "subtype": "model_refusal_fallback", "fallbackModel": "claude-b"}
    refusal = normalized({**record, "apiRefusalCategory": "cyber", "originalModel": "claude-a"})

    assert refusal.code == "CONTENT_CYBER"
    assert refusal.source is not None
    assert refusal.source.served_by == "claude-b"
    unexplained = normalized({**record, "apiRefusalCategory": None})
    assert unexplained.code == "FILTERED_UNSPECIFIED"
    assert unexplained.source is not None
    assert unexplained.source.served_by == "claude-b"
    assert normalize({"type": "system", "subtype": "init"}) is None
