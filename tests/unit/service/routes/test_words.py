"""Routes that read and write refusals: normalise, detect, respond, codes, parse, format."""

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


def test_the_words_of_a_crisis_name_the_lines_of_the_locale() -> None:
    with open_service() as call:
        body = {"code": "CRISIS_ESCALATION", "locale": "en-US"}
        told = call("POST", "/v1/respond", body).json()

    assert "call or text 988" in told["text"]
    assert told["view"]["resources"][0].startswith("988")


def test_a_wording_is_chosen_and_named() -> None:
    with open_service() as call:
        body = {"code": "RCE_RISK", "variation": 2}
        told = call("POST", "/v1/respond", body).json()
        named = call("POST", "/v1/respond", {**body, "variation": "talk 7"}).json()

    assert (told["template"], told["variation"]) == ("code_execution", 2)
    assert named["variation"] in range(3)


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


def test_refusals_in_a_text_are_parsed() -> None:
    log = "12:00 sh REFUSED: RCE_RISK: curl\nall is well\nToo  many requests\n"
    with open_service() as call:
        parsed = call("POST", "/v1/parse", {"text": log}).json()

    assert [(one["code"], one["detail"], one["legacy"]) for one in parsed["found"]] == [
        ("RCE_RISK", "curl", False),
        ("RATE_LIMIT", "Too  many requests", True),
    ]
    first = parsed["found"][0]
    assert log[first["start"] : first["end"]] == "REFUSED: RCE_RISK: curl"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("REFUSED: RCE_RISK: a\\u000ab", ("RCE_RISK", "a\nb", False)),
        ("REFUSED: RCE_RISK: \\ud800", ("RCE_RISK", "\\ud800", False)),
        ("call blocked by policy", ("POLICY_VIOLATION", "call blocked by policy", True)),
        ("REFUSED: rate limit exceeded", None),
        ("REFUSED: NOPE_NOPE: x", None),
        ("all is well", None),
        ("", None),
    ],
)
def test_a_text_that_is_one_refusal_is_told_from_others(
    text: str, refusal: tuple[str, str, bool] | None
) -> None:
    with open_service() as call:
        parsed = call("POST", "/v1/parse", {"text": text}).json()["refusal"]

    assert (parsed and (parsed["code"], parsed["detail"], parsed["legacy"])) == refusal


def test_a_written_line_is_read_back() -> None:
    body = {"code": "TOOL_NOT_ALLOWED", "detail": "shell\nfor 'rm'"}
    with open_service() as call:
        line = call("POST", "/v1/format", body).json()["line"]
        parsed = call("POST", "/v1/parse", {"text": line}).json()["refusal"]
        bare = call("POST", "/v1/format", {"code": "RCE_RISK"}).json()["line"]

    assert line == "REFUSED: TOOL_NOT_ALLOWED: shell\\u000afor 'rm'"
    assert {name: parsed[name] for name in body} == body
    assert bare == "REFUSED: RCE_RISK: "


def test_a_line_with_an_unknown_code_is_not_written() -> None:
    with open_service() as call:
        refused = call("POST", "/v1/format", {"code": "RCE_RISC", "detail": "x"})

    assert refused.status_code == 422
    assert refused.json()["where"] == "code"
    assert "did you mean `RCE_RISK`?" in refused.json()["help"]


@pytest.mark.parametrize("body", [{}, {"text": 1}, {"text": "x", "more": 1}, [], "x"])
def test_a_body_that_is_not_a_text_is_refused(body: Any) -> None:
    with open_service() as call:
        assert call("POST", "/v1/parse", body).status_code == 422


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("RCE", "`RCE_RISK`"),
        ("rate_limt", "`RATE_LIMIT`"),
        ("CHARGEBACK", "`CHARGEBACK_RISK_BLOCK`"),
    ],
)
def test_an_unknown_code_names_those_that_may_be_meant(code: str, meant: str) -> None:
    with open_service() as call:
        answered = call("GET", f"/v1/codes/{code}")

    assert answered.status_code == 404
    assert answered.json()["where"] == "code"
    assert answered.json()["help"].startswith("did you mean ")
    assert meant in answered.json()["help"]


def test_a_code_like_no_other_leads_to_the_list() -> None:
    with open_service() as call:
        assert "GET /v1/codes" in call("GET", "/v1/codes/QQQQQ").json()["help"]
