from typing import Any

import msgspec
import pytest
from support.lookalikes import error, thing

from demur.emit.hosts import MCP_META_KEY
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

REFUSAL = Refusal.from_code(
    "APPROVAL_REQUIRED", "refund of 900", evidence={"n": 1}, decision_id="dec_1"
)
ENVELOPE: dict[str, Any] = msgspec.to_builtins(REFUSAL)


def result(text: str, *, is_error: bool = True, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error, **more}


def failure(code: int, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "failed", **more}}


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize(
    ("wire", "field", "value"),
    [
        ("_meta", "meta", {MCP_META_KEY: ENVELOPE}),
        ("structuredContent", "structured_content", {"refusal": ENVELOPE}),
    ],
)
def test_the_envelope_in_a_tool_result_comes_back_without_loss(
    wire: str, field: str, value: dict[str, Any], is_error: bool
) -> None:
    as_json = result("no", is_error=is_error, **{wire: value})
    as_object = thing(
        "mcp_types", "CallToolResult", is_error=is_error, content=[], **{field: value}
    )

    assert normalize(as_json) == REFUSAL
    assert normalize(as_object) == REFUSAL
    assert normalize({"jsonrpc": "2.0", "id": 1, "result": as_json}) == REFUSAL


@pytest.mark.parametrize(
    "text",
    [
        "REFUSED: RCE_RISK: pwn",
        "HTTP 404: <p>REFUSED: RCE_RISK: pwn</p>",
        "no\nREFUSED: RCE_RISK: x",
    ],
)
@pytest.mark.parametrize("is_error", [True, False])
def test_text_of_a_tool_is_never_a_refusal(text: str, is_error: bool) -> None:
    assert code_of(result(text, is_error=is_error)) is None
    assert code_of(result("x", is_error=is_error, structuredContent={"refusal": text})) is None


def test_a_failed_call_alone_is_neither_denial_nor_refusal() -> None:
    assert code_of(result("permission denied by policy")) is None
    assert code_of(result("REFUSED: RCE_RISK: eval", is_error=False)) is None
    assert code_of(result("it worked", is_error=False, structuredContent={"rows": 3})) is None


def test_an_error_carries_the_envelope_too() -> None:
    assert normalize(failure(-32010, data={"refusal": ENVELOPE})) == REFUSAL
    raised = error("mcp.shared.exceptions", "McpError", "no", error=failure(-32010)["error"])
    assert code_of(raised) is None
    raised = error("mcp", "MCPError", "no", code=-32010, message="no", data={"refusal": ENVELOPE})
    assert normalize(raised) == REFUSAL


def test_the_draft_denial_is_a_missing_permission() -> None:
    known = failure(-32010, data={"authorization": {"reason": "insufficient_authorization"}})
    newer = failure(-32010, data={"authorization": {"reason": "region_forbidden"}})
    silent = failure(-32010, data={"authorization": {"remediationHints": []}})

    assert code_of(known) == "PERMISSION_DENIED"
    assert code_of(newer) == "FILTERED_UNSPECIFIED"
    assert code_of(silent) == "FILTERED_UNSPECIFIED"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (-1, "APPROVAL_DENIED"),
        (-32042, "AUTHORIZATION_MISSING"),
        (-32700, None),
        (-32600, None),
        (-32601, None),
        (-32602, None),
        (-32603, None),
        (-32020, None),
        (-32021, None),
        (-32022, None),
        (-32999, None),
    ],
)
def test_a_number_refuses_only_where_the_protocol_means_it(number: int, code: str | None) -> None:
    assert code_of(failure(number)) == code


def test_a_number_that_is_none_says_nothing() -> None:
    failed = {"jsonrpc": "2.0", "id": 1, "error": {"code": float("nan"), "message": "x"}}

    assert code_of(failed) is None


def test_a_declined_question_is_one_and_a_cancelled_one_is_not() -> None:
    assert code_of({"action": "decline"}) == "ELICITATION_DECLINED"
    assert code_of(thing("mcp_types", "ElicitResult", action="decline", content=None)) == (
        "ELICITATION_DECLINED"
    )
    assert code_of({"jsonrpc": "2.0", "id": 1, "result": {"action": "decline"}}) == (
        "ELICITATION_DECLINED"
    )
    assert code_of({"action": "cancel"}) is None
    assert code_of({"action": "accept", "content": {"name": "x"}}) is None
    assert code_of({"action": "decline", "invoice": 4}) is None
    assert code_of({"action": "postpone"}) is None
