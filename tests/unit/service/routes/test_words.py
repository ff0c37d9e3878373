"""Routes that read and write refusals: normalise, detect, respond, codes."""

from typing import Any

import pytest
from support.gates import refund
from support.service_app import add_key, open_service

CUT = {"choices": [{"finish_reason": "content_filter", "message": {"content": None}}]}


@pytest.mark.parametrize("more", ["", "x" * 5000])
def test_a_providers_refusal_is_normalised(more: str) -> None:
    with open_service() as call:
        found = call("POST", "/v1/normalize", {**CUT, "more": more}).json()["refusal"]

    assert found["code"] == "FILTERED_UNSPECIFIED"


@pytest.mark.parametrize("body", [{"choices": []}, [], 1, "text", True, {}])
def test_a_body_without_a_refusal_normalizes_to_null(body: Any) -> None:
    with open_service() as call:
        assert call("POST", "/v1/normalize", body).json() == {"refusal": None}


def test_prose_that_refuses_is_detected() -> None:
    with open_service() as call:
        found = call("POST", "/v1/detect", {"response": "I'm sorry, but I can't help with that."})
        other = call("POST", "/v1/detect", {"response": "Paris.", "prompt": "Capital of France?"})

        assert found.json()["kind"] == "full"
        assert other.json()["kind"] == "none"
        assert call("POST", "/v1/detect", {"response": 1}).status_code == 422


def test_a_code_is_put_into_words() -> None:
    with open_service() as call:
        body = {"code": "DESTRUCTIVE_ACTION", "locale": "de", "audience": "end_user"}
        told = call("POST", "/v1/respond", body).json()
        agent = call("POST", "/v1/respond", {"code": "RCE_RISK", "audience": "agent"}).json()

    assert told["locale"] == "de"
    assert told["text"] == told["view"]["text"]
    assert agent["view"]["code"] == "RCE_RISK"


def test_a_decision_is_rendered_for_an_audience_the_key_may_read() -> None:
    with open_service() as call:
        one = call("POST", "/v1/decide", {"request": refund(500)}).json()["decision_id"]
        body = {"decision_id": one, "audience": "operator"}
        told = call("POST", "/v1/respond", body).json()
        decider = add_key(call.store, "default", "decide")
        refused = call("POST", "/v1/respond", body, key=decider)
        allowed = call("POST", "/v1/respond", {"decision_id": one}, key=decider)

    assert told["view"]["decision_id"] == one
    assert refused.status_code == 403
    assert allowed.status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"code": "RCE_RISK", "decision_id": "x"}, 422),
        ({"code": "NO_SUCH"}, 422),
        ({"code": "RCE_RISK", "audience": "king"}, 422),
        ({"code": "SUCCESS_MEMORY_SIMILAR_ALLOW"}, 422),
        ({"code": "RCE_RISK", "slots": {"a": 1}}, 422),
        ({"decision_id": "NO"}, 404),
    ],
)
def test_an_unrenderable_request_is_refused(body: Any, status: int) -> None:
    with open_service() as call:
        assert call("POST", "/v1/respond", body).status_code == status


def test_codes_are_listed_and_shown() -> None:
    with open_service() as call:
        listed = call("GET", "/v1/codes").json()
        one = call("GET", "/v1/codes/RCE_RISK").json()

        assert one in listed["codes"]
        assert call("GET", "/v1/codes/acme.com/NOTHING").status_code == 404
        assert call("GET", "/v1/codes/NOTHING").status_code == 404
