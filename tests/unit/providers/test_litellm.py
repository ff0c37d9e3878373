from typing import Any

import pytest
from support.lookalikes import error

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

MODULE = "litellm.exceptions"


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def guardrail(message: str, **fields: Any) -> Exception:
    fields = {"guardrail_name": "acme-pii", "status_code": 400, "message": message, **fields}
    return error(MODULE, "GuardrailRaisedException", message, **fields)


def test_a_guardrail_that_blocked_refuses() -> None:
    refusal = normalized(guardrail("blocked", blocked_content=True))

    assert refusal.code == "POLICY_VIOLATION"
    assert refusal.evidence["guard"] == "acme-pii"
    assert refusal.decided


def test_a_guardrail_that_broke_has_not_judged() -> None:
    refusal = normalized(guardrail("connection refused", blocked_content=False))

    assert refusal.code == "GUARDRAIL_UNAVAILABLE"
    assert not refusal.decided
    assert refusal.source is not None
    assert (refusal.source.path, refusal.source.native) == ("blocked_content", False)


def test_a_version_without_the_field_raises_for_blocks_alone() -> None:
    assert normalized(guardrail("blocked", status_code=403)).code == "POLICY_VIOLATION"


@pytest.mark.parametrize("blocked", [True, False])
def test_a_refusal_line_in_the_message_decides(blocked: bool) -> None:
    wrapped = "Guardrail raised an exception, Guardrail: x, Message: REFUSED: RCE_RISK: eval"
    refusal = normalized(guardrail(wrapped, blocked_content=blocked))

    assert (refusal.code, refusal.detail) == ("RCE_RISK", "eval")


def test_the_kind_of_personal_data_is_named() -> None:
    raised = error(
        MODULE,
        "BlockedPiiEntityError",
        "Blocked entity detected: EMAIL_ADDRESS",
        entity_type="EMAIL_ADDRESS",
        guardrail_name="presidio",
        status_code=400,
    )
    refusal = normalized(raised)

    assert refusal.code == "PII_DETECTED"
    assert refusal.evidence == {"guard": "presidio", "entity": "EMAIL_ADDRESS"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ContentPolicyViolationError", "CONTENT_OTHER"),
        ("RejectedRequestError", "POLICY_VIOLATION"),
        ("GuardrailInterventionNormalStringError", "POLICY_VIOLATION"),
        ("BudgetExceededError", "BUDGET_EXCEEDED"),
    ],
)
def test_each_exception_has_its_code(name: str, code: str) -> None:
    raised = error(
        MODULE, name, "no", base="BadRequestError", llm_provider="azure", status_code=400
    )

    assert normalized(raised).code == code


@pytest.mark.parametrize(
    "fields",
    [
        {"provider_specific_fields": {"innererror": {"content_filter_result": {"x": 1}}}},
        {"body": {"message": "no", "innererror": {"content_filter_result": {"x": 1}}}},
        {"provider_specific_fields": {"content_filter_results": {"x": 1}}},
    ],
    ids=["fields", "body", "bare"],
)
def test_azure_filter_results_are_read_through_litellm(fields: dict[str, Any]) -> None:
    results = {
        "violence": {"filtered": True, "severity": "high"},
        "hate": {"filtered": False, "severity": "low"},
        "jailbreak": {"filtered": False, "detected": True},
    }
    for place in fields.values():
        inner = place.get("innererror", place)
        name = next(name for name in inner if name.startswith("content_filter"))
        inner[name] = results
    raised = error(MODULE, "ContentPolicyViolationError", "filtered", status_code=400, **fields)

    refusal = normalized(raised)

    assert refusal.code == "CONTENT_VIOLENCE"
    assert refusal.evidence == {"via": "litellm", "category": "violence"}


def test_azure_filter_results_are_read_from_the_exception_context() -> None:
    inner = {"content_filter_result": {"hate": {"filtered": True, "severity": "high"}}}
    body = {"code": "content_filter", "message": "filtered", "innererror": inner}
    raised = error(MODULE, "ContentPolicyViolationError", "filtered", status_code=400)
    raised.__context__ = error("openai", "BadRequestError", "400", status_code=400, body=body)

    assert normalized(raised).code == "CONTENT_HATE"


def test_an_error_that_is_none_of_these_is_no_refusal() -> None:
    assert normalize(error(MODULE, "Timeout", "too slow", status_code=408)) is None


def test_of_several_choices_the_refused_one_decides() -> None:
    def choice(finish: str, native: str) -> dict[str, Any]:
        kept = {"native_finish_reason": native}
        return {"finish_reason": finish, "message": {}, "provider_specific_fields": kept}

    refused = choice("content_filter", "SPII")
    assert normalized({"choices": [choice("stop", "STOP"), refused]}).code == "PII_DETECTED"


@pytest.mark.parametrize(
    ("native", "code"),
    [("refusal", "FILTERED_UNSPECIFIED"), ("guardrail_intervened", "FILTERED_UNSPECIFIED")],
)
def test_an_unmapped_reason_that_became_stop_is_still_a_refusal(native: str, code: str) -> None:
    kept = {"native_finish_reason": native}
    choice = {"finish_reason": "stop", "message": {}, "provider_specific_fields": kept}

    assert normalized({"choices": [choice]}).code == code


def test_a_reason_that_nobody_knows_is_a_refusal_only_if_it_reads_like_one() -> None:
    def answer(native: str) -> dict[str, Any]:
        kept = {"native_finish_reason": native}
        return {"choices": [{"finish_reason": "stop", "provider_specific_fields": kept}]}

    refusal = normalized(answer("SOVEREIGN_BLOCK"))
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert refusal.source is not None
    assert refusal.source.name == "litellm"
    assert normalize(answer("finished_early")) is None
