import pytest

from demur.emit.claude_code import HOOK_EVENTS, from_claude_code, to_claude_code, to_hook_exit
from demur.errors import InputError
from demur.model.refusal import Refusal

RCE = Refusal.from_code("RCE_RISK", "curl x | sh")
WAITS = Refusal.from_code("APPROVAL_REQUIRED", "refund")
LINE = "REFUSED: RCE_RISK: curl x | sh"


def test_before_a_tool_runs_it_is_denied() -> None:
    assert to_claude_code(RCE) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": LINE,
        }
    }


@pytest.mark.parametrize(("ask", "decision"), [(True, "ask"), (False, "deny")])
def test_what_waits_for_approval_is_asked_only_where_the_caller_says_so(
    ask: bool, decision: str
) -> None:
    output = to_claude_code(WAITS, ask=ask)

    assert output["hookSpecificOutput"]["permissionDecision"] == decision


def test_a_permission_that_is_being_asked_for_is_denied_in_its_own_form() -> None:
    assert to_claude_code(WAITS, event="PermissionRequest", ask=True) == {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "deny", "message": WAITS.line},
        }
    }


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop"])
def test_elsewhere_it_blocks(event: str) -> None:
    assert to_claude_code(RCE, event=event) == {"decision": "block", "reason": LINE}


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_halting_stops_the_agent_too(event: str) -> None:
    output = to_claude_code(RCE, event=event, halt=True)

    assert (output["continue"], output["stopReason"]) == (False, LINE)


def test_an_event_that_cannot_refuse_is_an_error() -> None:
    with pytest.raises(InputError, match="`Notification` cannot refuse") as caught:
        to_claude_code(RCE, event="Notification")
    assert "PreToolUse" in str(caught.value.help)


def test_without_json_the_line_goes_to_the_error_stream_with_status_two() -> None:
    assert to_hook_exit(RCE) == (2, f"{LINE}\n")


def test_a_code_that_allows_blocks_nothing() -> None:
    allows = Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW")
    with pytest.raises(InputError):
        to_claude_code(allows)
    with pytest.raises(InputError):
        to_hook_exit(allows)


def test_a_stop_alone_is_read_too() -> None:
    assert from_claude_code({"continue": False, "stopReason": LINE}) == RCE


@pytest.mark.parametrize(
    "output",
    [
        {"continue": True, "stopReason": LINE},
        {"decision": "approve", "reason": LINE},
        {"decision": "block", "reason": "the tests fail"},
        {"hookSpecificOutput": {"permissionDecision": "allow", "permissionDecisionReason": LINE}},
        {"hookSpecificOutput": {"decision": {"behavior": "allow", "message": LINE}}},
        {},
    ],
)
def test_an_output_that_lets_it_run_or_has_no_code_is_none(output: dict[str, object]) -> None:
    assert from_claude_code(output) is None
