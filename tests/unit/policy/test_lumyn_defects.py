"""Ways in which other decision engines have failed open, and what happens here."""

import json
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.loader import parse_policy

CORE = Registry.load()
HEAD = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
ALLOW = {"verdict": "ALLOW"}
DENY = {"verdict": "DENY", "reason_codes": ["CHARGEBACK_RISK_BLOCK"]}


def rule(stage: str, condition: dict[str, Any], then: dict[str, Any], name: str) -> dict[str, Any]:
    return {"id": name, "stage": stage, "if": condition, "then": then}


def allow(condition: dict[str, Any], name: str = "A") -> dict[str, Any]:
    return rule("ALLOW_PATHS", condition, ALLOW, name)


def block(condition: dict[str, Any], name: str = "B") -> dict[str, Any]:
    return rule("HARD_BLOCKS", condition, DENY, name)


def decide(rules: list[dict[str, Any]], request: dict[str, Any], **more: Any) -> Evaluation:
    policy = parse_policy(json.dumps({**HEAD, "rules": rules, **more}), registry=CORE)
    return CompiledPolicy(policy, registry=CORE).evaluate(request)


def refused(*rules: dict[str, Any], **more: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy(json.dumps({**HEAD, "rules": list(rules), **more}), registry=CORE)
    return str(caught.value)


# 1: a condition that is accepted and then ignored


@pytest.mark.parametrize("key", ["action_type_in", "when.action_type", "action_type_is"])
def test_a_condition_is_understood_or_refused_never_ignored(key: str) -> None:
    assert f"unknown field `{key}`" in refused(allow({key: ["refund"]}))
    assert "unknown key `when`" in refused({**allow({}), "when": {"action_type_in": ["refund"]}})


def test_an_allow_for_one_action_allows_no_other() -> None:
    rules = [allow({"action_type": {"in": ["refund"]}})]

    assert decide(rules, {"action": {"type": "refund"}}).verdict is Verdict.ALLOW
    for action in ("wire", "", None, 5, ["refund"]):
        assert decide(rules, {"action": {"type": action}}).verdict is not Verdict.ALLOW
    assert decide(rules, {}).verdict is Verdict.ESCALATE


# 2: documented fields that never match


@pytest.mark.parametrize(
    "condition",
    [
        {"amount_usd": 20},
        {"amount_usd": {"lte": 20}},
        {"amount_currency": "USD"},
        {"amount_currency": {"ne": "EUR"}},
        {"action_type": "refund"},
        {"action.type": {"starts_with": "ref"}},
    ],
)
def test_every_documented_field_matches(condition: dict[str, Any]) -> None:
    request = {"action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}}}

    assert decide([allow(condition)], request).matched_rules == ("A",)


# 3: evidence that cannot be compared makes a block false


@pytest.mark.parametrize("risk", ["0.99", "high", float("nan"), float("inf"), True, [], {}, [0.99]])
def test_unusable_evidence_never_opens_a_block(risk: Any) -> None:
    rules = [block({"evidence.chargeback_risk": {"gte": 0.8}}), allow({"action_type": "refund"})]
    got = decide(rules, {"action": {"type": "refund"}, "evidence": {"chargeback_risk": risk}})

    assert got.verdict is Verdict.ABSTAIN
    assert "EVIDENCE_INVALID" in got.reason_codes
    assert [(fact.rule_id, fact.path) for fact in got.invalid] == [
        ("B", "evidence.chargeback_risk")
    ]
    assert got.missing == ("evidence.chargeback_risk",)


@pytest.mark.parametrize("evidence", [{}, {"chargeback_risk": None}, None])
def test_a_requirement_reports_missing_evidence(evidence: Any) -> None:
    rules = [
        rule(
            "REQUIREMENTS",
            {"action_type": "refund", "evidence.chargeback_risk": {"missing": True}},
            {"verdict": "ESCALATE", "reason_codes": ["MISSING_EVIDENCE_REFUND"]},
            "M",
        ),
        block({"evidence.chargeback_risk": {"gte": 0.8}}),
        allow({"action_type": "refund"}),
    ]
    got = decide(rules, {"action": {"type": "refund"}, "evidence": evidence})

    assert got.verdict is Verdict.ESCALATE
    assert got.reason_codes == ("MISSING_EVIDENCE_REFUND",)
    assert got.missing == ("evidence.chargeback_risk",)


def test_an_allow_that_compares_evidence_does_not_hold_without_it() -> None:
    rules = [allow({"evidence.chargeback_risk": {"lt": 0.8}})]

    assert decide(rules, {"evidence": {}}).verdict is Verdict.ESCALATE
    assert decide(rules, {"evidence": {"chargeback_risk": 0.1}}).verdict is Verdict.ALLOW


# 4: `not equal` is true of what is not there, and true is 1


@pytest.mark.parametrize(
    "condition",
    [
        {"evidence.status": {"ne": "banned"}},
        {"evidence.status": {"not_in": ["banned"]}},
        {"not": {"evidence.status": "banned"}},
        {"not": {"evidence.status": {"in": ["banned"]}}},
    ],
)
def test_a_missing_field_is_not_unequal(condition: dict[str, Any]) -> None:
    rules = [allow(condition)]

    for evidence in ({}, {"status": None}, None):
        assert decide(rules, {"evidence": evidence}).verdict is Verdict.ESCALATE
    assert decide(rules, {"evidence": {"status": "good"}}).verdict is Verdict.ALLOW
    assert decide(rules, {"evidence": {"status": 5}}).verdict is Verdict.ABSTAIN


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ({"eq": 1}, True),
        ({"eq": 0}, False),
        ({"eq": True}, 1),
        ({"in": [1, 2]}, True),
        ({"in": [True]}, 1.0),
        ({"gte": 1}, True),
        ({"lt": 1}, False),
    ],
)
def test_a_boolean_is_no_number(condition: dict[str, Any], value: Any) -> None:
    got = decide([allow({"evidence.a": condition})], {"evidence": {"a": value}})

    assert got.verdict is Verdict.ABSTAIN


# 5: thresholds of the wrong type


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"gt": "high"}, "`gt` takes a number"),
        ({"gte": "0.8"}, "`gte` takes a number"),
        ({"lt": True}, "`lt` takes a number"),
        ({"lte": None}, "`lte` takes a number"),
        ({"gt": [1]}, "`gt` takes a number"),
        ({"gt": {"eq": 1}}, "`gt` takes a number"),
        ({"in": "refund"}, "`in` takes a list"),
        ({"in": 5}, "`in` takes a list"),
        ({"not_in": True}, "`not_in` takes a list"),
        ({"eq": [1]}, "`eq` takes a text, a number, true or false"),
    ],
)
def test_an_operand_of_the_wrong_type_is_a_load_error(
    condition: dict[str, Any], problem: str
) -> None:
    found = refused(block({"evidence.a": condition}))

    assert problem in found
    assert found.startswith("policy:1:")
    assert found.count("\n") == 0


# 9: negative amounts, and the caller's own rate


@pytest.mark.parametrize(
    "amount",
    [
        {"value": -1000, "currency": "USD"},
        {"value": "-1000", "currency": "USD"},
        {"value": 1000, "currency": "XXX", "fx_rate_to_usd": 1e-9},
        {"value": 1000, "currency": "XXX"},
        {"value": 1000},
        {"currency": "USD"},
        {"value": float("nan"), "currency": "USD"},
        {"value": "much", "currency": "USD"},
        {"value": True, "currency": "USD"},
    ],
)
def test_an_amount_that_cannot_be_trusted_allows_nothing(amount: dict[str, Any]) -> None:
    rules = [allow({"amount_usd": {"lt": 50}})]

    assert decide(rules, {"action": {"amount": amount}}).verdict is Verdict.ABSTAIN


def test_the_rate_is_the_policys_own() -> None:
    rules = [allow({"amount_usd": {"lt": 50}})]
    amount = {"value": 1000, "currency": "EUR", "fx_rate_to_usd": 1e-9}
    request = {"action": {"amount": amount}, "evidence": {"fx_rate_to_usd": 1e-9}, "amount_usd": 1}

    assert decide(rules, request, rates={"EUR": 1.1}).verdict is Verdict.ESCALATE
    assert decide(rules, request).verdict is Verdict.ABSTAIN
    amount["value"] = 10
    assert decide(rules, request, rates={"EUR": 1.1}).verdict is Verdict.ALLOW


# 12: policies that contradict themselves


def test_a_hard_block_cannot_allow() -> None:
    assert "a rule in HARD_BLOCKS cannot conclude ALLOW" in refused(
        rule("HARD_BLOCKS", {}, ALLOW, "B")
    )


def test_a_default_that_allows_cannot_say_that_it_escalates() -> None:
    found = refused(defaults={"verdict": "ALLOW", "reason_code": "NO_MATCH_DEFAULT_ESCALATE"})

    assert "ALLOW cannot carry a code of class WORKFLOW_BLOCK" in found


def test_a_rule_id_names_one_rule() -> None:
    assert "rule `A` appears twice" in refused(allow({}), allow({}))


@pytest.mark.parametrize("place", ["top", "rule", "condition"])
def test_a_duplicate_key_is_refused(place: str) -> None:
    text = json.dumps({**HEAD, "rules": [block({"evidence.a": {"gt": 1}})]})
    doubled = {
        "top": text.replace('"policy_id"', '"policy_id": "q", "policy_id"'),
        "rule": text.replace('"stage"', '"stage": "ALLOW_PATHS", "stage"'),
        "condition": text.replace('"gt"', '"gt": 99, "gt"'),
    }[place]
    with pytest.raises(PolicyError, match="appears twice"):
        parse_policy(doubled, registry=CORE)
