from typing import Any

import pytest

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

ID = "4ca636c1-55e4-417a-b1d8-4aceb67960d1"


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def test_false_is_a_denial_and_keeps_the_id_of_the_decision() -> None:
    refusal = normalized({"result": False, "decision_id": ID})

    assert (refusal.code, refusal.surface) == ("POLICY_VIOLATION", "policy")
    assert refusal.source is not None
    assert refusal.source.request_id == ID


def test_undefined_is_no_denial_but_was_not_judged_either() -> None:
    refusal = normalized({"decision_id": ID})

    assert (refusal.code, refusal.decided) == ("GUARDRAIL_UNAVAILABLE", False)
    assert normalize({}) is None
    assert normalize({"decision_id": ID, "verdict": "ALLOW"}) is None


@pytest.mark.parametrize(
    ("result", "code", "detail"),
    [
        ({"allow": False}, "POLICY_VIOLATION", "result.allow: False"),
        ({"allow": False, "reason": "too late"}, "POLICY_VIOLATION", "too late"),
        ({"allow": False, "code": "RATE_LIMIT", "msg": "soon"}, "RATE_LIMIT", "soon"),
        (
            {"allow": False, "reason_codes": ["SCOPE_MISSING"]},
            "SCOPE_MISSING",
            "result.reason_codes[0]",
        ),
        ({"allow": False, "message": "REFUSED: RCE_RISK: eval"}, "RCE_RISK", "eval"),
        ({"deny": True, "code": "RCE_RISK"}, "RCE_RISK", "result.code"),
        ({"deny": ["no port 22", "no root"]}, "POLICY_VIOLATION", "no port 22"),
        ({"deny": {"no root": True}}, "POLICY_VIOLATION", "no root"),
        ({"violation": [{"msg": "no", "code": "TOPIC_DENIED"}]}, "TOPIC_DENIED", "no"),
    ],
)
def test_the_code_is_the_policy_s_own_if_it_supplies_one(
    result: dict[str, Any], code: str, detail: str
) -> None:
    refusal = normalized({"result": result})

    assert refusal.code == code
    assert refusal.detail == detail


@pytest.mark.parametrize(
    "decision",
    [
        {"result": True, "decision_id": ID},
        {"result": {"allow": True}, "decision_id": ID},
        {"result": {"deny": []}, "decision_id": ID},
        {"result": {"deny": {}}, "decision_id": ID},
        {"result": False},
        {"result": {"rows": [1, 2]}},
        {"jsonrpc": "2.0", "id": 1, "result": {"allow": False}},
    ],
)
def test_a_decision_that_denies_nothing_is_not_a_refusal(decision: dict[str, Any]) -> None:
    assert normalize(decision) is None


def test_an_evaluation_on_the_command_line() -> None:
    def evaluated(value: Any) -> dict[str, Any]:
        return {"result": [{"expressions": [{"value": value, "text": "data.x"}]}]}

    assert normalized(evaluated({"allow": False, "code": "RATE_LIMIT"})).code == "RATE_LIMIT"
    assert normalize(evaluated({"allow": True})) is None


@pytest.mark.parametrize(
    ("code", "want"),
    [("rego_type_error", "POLICY_INVALID"), ("eval_conflict_error", "GUARDRAIL_UNAVAILABLE")],
)
def test_a_policy_that_could_not_be_evaluated_has_not_judged(code: str, want: str) -> None:
    errors = [{"code": "unheard_of"}, {"code": code, "message": "conflict"}]
    refusal = normalized({"code": "internal_error", "message": "x", "errors": errors})

    assert (refusal.code, refusal.decided) == (want, False)
