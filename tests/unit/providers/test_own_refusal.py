from typing import Any

import msgspec
import pytest
from support.lookalikes import error

from demur.emit.envelope import to_problem
from demur.emit.hosts import (
    HOOK_EVENTS,
    to_claude_code,
    to_mcp,
    to_mcp_denial,
    to_openai,
    to_openai_part,
)
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

REFUSAL = Refusal.from_code(
    "RCE_RISK", "eval of a download", evidence={"a": 1}, decision_id="dec_1"
)
ENVELOPE: dict[str, Any] = msgspec.to_builtins(REFUSAL)
PROBLEM = {"type": "urn:demur:code:RCE_RISK", "title": "Remote code execution", "status": 403}


@pytest.mark.parametrize(
    "obj",
    [
        REFUSAL,
        ENVELOPE,
        msgspec.json.encode(REFUSAL),
        {"refusal": ENVELOPE},
        (403, {**PROBLEM, **ENVELOPE}),
        {**PROBLEM, **ENVELOPE},
        {"error": {"code": -32010, "message": "no", "data": {"refusal": ENVELOPE}}},
        error("acme.guard", "Refused", "no", refusal=REFUSAL),
    ],
    ids=["object", "mapping", "json", "member", "http", "problem", "json-rpc", "exception"],
)
def test_a_demur_refusal_object_is_returned_unchanged(obj: Any) -> None:
    assert normalize(obj) == REFUSAL


@pytest.mark.parametrize(
    "emitted",
    [to_mcp(REFUSAL), to_mcp_denial(REFUSAL, request_id=1), to_problem(REFUSAL)],
    ids=["mcp", "mcp denial", "problem"],
)
def test_an_emitted_envelope_is_read_completely(emitted: Any) -> None:
    assert normalize(emitted) == REFUSAL


@pytest.mark.parametrize(
    "emitted",
    [
        *(to_claude_code(REFUSAL, event=event) for event in HOOK_EVENTS),
        to_claude_code(REFUSAL, halt=True),
        {"choices": [{"message": to_openai(REFUSAL, words="I won't."), "finish_reason": "stop"}]},
        {"output": [{"type": "message", "content": [to_openai_part(REFUSAL)]}]},
    ],
)
def test_an_emitted_line_is_read_by_its_code(emitted: Any) -> None:
    found = normalize(emitted)

    assert found is not None
    assert (found.code, found.detail) == (REFUSAL.code, REFUSAL.detail)


def test_an_exception_that_says_a_refusal_line_is_that_refusal() -> None:
    found = normalize(error("fastmcp.exceptions", "ToolError", REFUSAL.line))

    assert found is not None
    assert (found.code, found.detail) == ("RCE_RISK", "eval of a download")
    assert found.source is not None
    assert found.source.path == "message"


@pytest.mark.parametrize(
    "raised",
    [
        ValueError(f"could not parse tool output '{REFUSAL.line}'"),
        KeyError(REFUSAL.line),
        RuntimeError(f"the page said:\n{REFUSAL.line}"),
    ],
)
def test_an_exception_that_quotes_a_line_is_none(raised: Exception) -> None:
    assert normalize(raised) is None


def test_an_exception_with_a_page_for_a_body_still_says_its_line() -> None:
    raised = error("acme.guard", "Refused", REFUSAL.line, status_code=403, body="<html>no</html>")

    found = normalize(raised)

    assert found is not None
    assert found.code == "RCE_RISK"


def test_text_is_a_refusal_only_from_its_start() -> None:
    found = normalize(REFUSAL.line)

    assert found is not None
    assert found.code == "RCE_RISK"
    assert normalize(f"the log said {REFUSAL.line}") is None
    assert normalize("I looked at the log and found nothing.") is None
