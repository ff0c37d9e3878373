from typing import Any

import msgspec
import pytest

from demur.emit.mcp_denial import from_mcp_denial, to_mcp_denial
from demur.errors import InputError
from demur.model.refusal import Refusal


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
