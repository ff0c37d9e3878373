from typing import Any

import msgspec
import pytest

from demur.emit.envelope import to_envelope
from demur.emit.hosts import (
    HOOK_EVENTS,
    from_claude_code,
    from_mcp,
    from_mcp_denial,
    from_openai,
    to_claude_code,
    to_hook_exit,
    to_mcp,
    to_mcp_denial,
    to_openai,
    to_openai_part,
)
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
def test_a_pending_approval_becomes_a_question_only_if_the_caller_allows_it(
    ask: bool, decision: str
) -> None:
    output = to_claude_code(WAITS, ask=ask)

    assert output["hookSpecificOutput"]["permissionDecision"] == decision


def test_a_permission_request_is_denied_in_its_own_form() -> None:
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


def test_the_model_reads_the_line_and_the_host_the_envelope() -> None:
    assert to_mcp(RCE) == {
        "content": [{"type": "text", "text": "REFUSED: RCE_RISK: curl x | sh"}],
        "isError": True,
        "_meta": {"demur/refusal": to_envelope(RCE)},
    }


def test_a_refusal_is_read_from_structured_content_too() -> None:
    result = {"isError": True, "structuredContent": {"refusal": to_envelope(RCE)}}

    assert from_mcp(result) == RCE
    assert from_mcp({**result, "_meta": {"demur/refusal": "RCE_RISK"}}) == RCE
    assert from_mcp({**result, "isError": False}) is None


def test_a_line_in_the_text_of_a_result_is_not_believed() -> None:
    assert from_mcp({"isError": True, "content": to_mcp(RCE)["content"]}) is None


def test_a_result_that_is_no_error_refuses_nothing() -> None:
    assert from_mcp({**to_mcp(RCE), "isError": False}) is None


def test_a_code_that_allows_is_no_error() -> None:
    with pytest.raises(InputError):
        to_mcp(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))


def hints(refusal: Refusal) -> list[dict[str, Any]]:
    denial = to_mcp_denial(refusal)
    listed: list[dict[str, Any]] = denial["error"]["data"]["authorization"]["remediationHints"]
    return listed


def test_the_decision_is_the_context_that_a_retry_can_echo() -> None:
    refusal = Refusal.from_code("APPROVAL_REQUIRED", "refund", decision_id="D1")
    denial = to_mcp_denial(refusal, request_id=7)

    authorization = denial["error"]["data"]["authorization"]
    assert (denial["jsonrpc"], denial["id"]) == ("2.0", 7)
    assert denial["error"]["message"] == "REFUSED: APPROVAL_REQUIRED: refund"
    assert authorization["reason"] == "insufficient_authorization"
    assert authorization["authorizationContextId"] == "D1"


def test_without_a_decision_there_is_no_context() -> None:
    denial = to_mcp_denial(Refusal.from_code("RCE_RISK"))

    assert "authorizationContextId" not in denial["error"]["data"]["authorization"]


def test_the_hint_is_the_next_step() -> None:
    assert hints(Refusal.from_code("APPROVAL_REQUIRED", evidence={"approver": "finance"})) == [
        {
            "type": "demur/request_approval",
            "retry": True,
            "description": "Have it approved by finance and send it again; other calls may pass.",
            "ask": "approver",
            "needs": ["finance"],
        }
    ]
    assert hints(Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 3}))[0]["retryAfter"] == 3
    [hint] = hints(Refusal.from_code("RCE_RISK"))
    assert set(hint) == {"type", "retry", "description"}


def test_an_address_for_an_appeal_is_a_hint_that_hosts_know() -> None:
    url = "https://provider.example/appeal"
    suspended = Refusal.from_code("ACCOUNT_SUSPENDED", evidence={"appeal_url": url})

    assert {"type": "url", "url": url} in hints(suspended)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://provider.example", 7, None])
def test_anything_else_is_no_address(url: object) -> None:
    assert len(hints(Refusal.from_code("ACCOUNT_SUSPENDED", evidence={"appeal_url": url}))) == 1


def test_a_refusal_without_advice_is_not_to_be_retried() -> None:
    mute = msgspec.structs.replace(Refusal.from_code("MODEL_DECLINED"), advice=None)

    assert hints(mute)[0]["type"] == "demur/do_not_retry"


@pytest.mark.parametrize("data", [{}, {"error": {"code": -32010}}, {"result": {}}, None])
def test_another_answer_is_none(data: object) -> None:
    assert from_mcp_denial(data) is None


def test_a_code_that_allows_denies_nothing() -> None:
    with pytest.raises(InputError):
        to_mcp_denial(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))


def test_a_chat_message_with_a_refusal_has_no_content() -> None:
    assert to_openai(RCE) == {"role": "assistant", "content": None, "refusal": LINE}


def test_a_content_part_is_of_its_own_type() -> None:
    assert to_openai_part(RCE) == {"type": "refusal", "refusal": LINE}


def test_words_for_people_come_before_the_line() -> None:
    part = to_openai_part(RCE, words="I can't run that.\nI can show what it holds.")

    assert part["refusal"] == f"I can't run that.\nI can show what it holds.\n{LINE}"
    assert from_openai(part) == RCE


@pytest.mark.parametrize(
    "data",
    [
        {"refusal": "I'm sorry, I can't help with that."},
        {"refusal": None},
        {"content": LINE},
        {"refusal": f"{LINE}\nand more"},
    ],
)
def test_a_refusal_without_a_code_line_at_its_end_is_none(data: dict[str, object]) -> None:
    assert from_openai(data) is None


def test_a_code_that_allows_makes_no_message() -> None:
    with pytest.raises(InputError):
        to_openai(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
