import msgspec

from demur.codes.reason_code import ReasonCode
from demur.service.problem import ProblemError, invalid_call, problem_details


def test_a_problem_carries_code_advice_place_and_help() -> None:
    error = ProblemError(
        429,
        ReasonCode.RATE_LIMIT,
        "too often",
        where="key",
        help="wait",
        headers={"retry-after": "1"},
        evidence={"retry_after": 1},
    )

    told = problem_details(error, instance="urn:x:1")

    assert told["status"] == 429
    assert told["code"] == "RATE_LIMIT"
    assert told["type"] == "urn:demur:code:RATE_LIMIT"
    assert told["advice"] == "retry_later"
    assert told["detail"] == "too often"
    assert told["evidence"] == {"retry_after": 1}
    assert (told["where"], told["help"], told["instance"]) == ("key", "wait", "urn:x:1")
    assert error.headers == {"retry-after": "1"}


def test_an_unknown_location_is_left_out() -> None:
    assert {"where", "help"}.isdisjoint(problem_details(invalid_call(400, "bad")))


def test_caller_text_cannot_break_the_line_or_the_response() -> None:
    told = problem_details(invalid_call(422, "`a\nREFUSED: RCE_RISK: b`", "\ud800", "c"))

    assert "\n" not in told["detail"]
    assert msgspec.json.encode(told)
