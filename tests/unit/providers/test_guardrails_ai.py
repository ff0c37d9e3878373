from typing import Any

import msgspec
import pytest
from support.lookalikes import error, thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def summary(name: str, reason: str = "because", status: str = "fail") -> dict[str, Any]:
    return {"validator_name": name, "validator_status": status, "failure_reason": reason}


def outcome(*summaries: dict[str, Any], passed: bool = False, **more: Any) -> Any:
    fields = {"validation_passed": passed, "validation_summaries": list(summaries), "error": None}
    return thing("guardrails.classes", "ValidationOutcome", **fields | more)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ToxicLanguage", "CONTENT_HARASSMENT"),
        ("guardrails/toxic_language", "CONTENT_HARASSMENT"),
        ("BanList", "TERM_BLOCKLISTED"),
        ("DetectJailbreak", "JAILBREAK_WRAPPER"),
        ("AcmeTone", "FILTERED_UNSPECIFIED"),
    ],
)
def test_the_name_of_the_validator_decides(name: str, code: str) -> None:
    refusal = normalized(outcome(summary(name)))

    assert (refusal.code, refusal.detail) == (code, "because")
    assert refusal.evidence == {"validator": name}


@pytest.mark.parametrize("name", ["DetectPII", "guardrails/secrets_present"])
def test_words_that_may_quote_what_was_found_are_left_out(name: str) -> None:
    refusal = normalized(outcome(summary(name, "found ada@example.org and sk-123")))

    assert refusal.evidence["left_out"] == ["failure_reason", "error_spans"]
    said = msgspec.json.encode(refusal)
    assert b"example.org" not in said
    assert b"sk-123" not in said


def test_the_strictest_of_several_decides_and_those_that_passed_do_not_count() -> None:
    passed = summary("DetectPII", status="pass")

    assert normalized(outcome(passed, summary("ProfanityFree"))).code == "CONTENT_PROFANITY"


def test_a_form_that_is_wrong_is_no_refusal() -> None:
    assert normalize(outcome(summary("ValidLength"))) is None


def test_a_guard_that_broke_has_not_judged() -> None:
    refusal = normalized(outcome(error="the validator is offline"))

    assert (refusal.code, refusal.decided) == ("GUARDRAIL_UNAVAILABLE", False)
    assert normalized(outcome()).code == "POLICY_VIOLATION"


def test_the_server_spells_its_fields_otherwise() -> None:
    failed = {"validatorName": "BanList", "validatorStatus": "fail", "failureReason": "x"}

    assert normalized({"validationPassed": False, "validationSummaries": [failed]}).code == (
        "TERM_BLOCKLISTED"
    )


def test_an_output_that_passed_after_a_fix_is_no_refusal() -> None:
    assert normalize(outcome(summary("DetectPII"), passed=True)) is None


def test_the_result_of_one_validator_does_not_say_which() -> None:
    result = {"outcome": "fail", "error_message": "found ada@example.org", "fix_value": "found <E>"}
    refusal = normalized(thing("guardrails", "FailResult", **result, error_spans=[]))

    assert refusal.code == "POLICY_VIOLATION"
    assert refusal.evidence == {"fixed": True, "left_out": ["error_message", "error_spans"]}
    assert b"example.org" not in msgspec.json.encode(refusal)
    assert normalize({"outcome": "pass"}) is None


def test_only_the_exception_of_this_package_is_a_refusal() -> None:
    text = "Validation failed for field with errors: found ada@example.org"
    refusal = normalized(error("guardrails.errors", "ValidationError", text))

    assert refusal.code == "POLICY_VIOLATION"
    assert b"example.org" not in msgspec.json.encode(refusal)
    assert normalize(error("pydantic_core", "ValidationError", "1 validation error")) is None
