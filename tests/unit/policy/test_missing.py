import json
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.gate.engine import DecisionEngine, EngineInput
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy

CORE = Registry.load()


def policy_of(*rules: dict[str, Any], **more: Any) -> Policy:
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1", **more}
    listed = [{"id": f"R{number}", **rule} for number, rule in enumerate(rules)]
    return parse_policy(json.dumps({**head, "rules": listed}), registry=CORE)


def requiring(condition: dict[str, Any], *missing: str) -> dict[str, Any]:
    then = {"verdict": "ESCALATE", "reason_codes": ["MISSING_EVIDENCE_REFUND"]}
    return {"stage": "REQUIREMENTS", "if": condition, "then": {**then, "missing": list(missing)}}


def allowing(condition: dict[str, Any]) -> dict[str, Any]:
    return {"stage": "ALLOW_PATHS", "if": condition, "then": {"verdict": "ALLOW"}}


def evaluated(policy: Policy, action: dict[str, Any] | None = None, **evidence: Any) -> Evaluation:
    request = {"action": {"type": "refund", **(action or {})}, "evidence": evidence}
    return CompiledPolicy(policy, registry=CORE).evaluate(request)


ABSENT, PRESENT = {"missing": True}, {"exists": True}


@pytest.mark.parametrize(
    ("condition", "evidence", "missing"),
    [
        ({"any": [{"evidence.a": ABSENT}, {"evidence.b": ABSENT}]}, {"a": 1}, ["evidence.b"]),
        (
            {"any": [{"evidence.a": ABSENT}, {"evidence.b": ABSENT}]},
            {},
            ["evidence.a", "evidence.b"],
        ),
        ({"not": {"evidence.a": PRESENT, "evidence.b": PRESENT}}, {"b": 1}, ["evidence.a"]),
        # The other branch holds whatever is supplied.
        ({"any": [{"evidence.a": ABSENT}, {"evidence.b": 1}]}, {"b": 1}, []),
        ({"any": [{"evidence.a": ABSENT}, {"evidence.b": 1}]}, {"b": 2}, ["evidence.a"]),
        ({"all": [{"evidence.a": ABSENT}, {"evidence.b": 1}]}, {"b": 1}, ["evidence.a"]),
    ],
)
def test_a_rule_asks_for_the_absent_fields_that_would_change_it(
    condition: dict[str, Any], evidence: dict[str, Any], missing: list[str]
) -> None:
    got = evaluated(policy_of(requiring(condition)), **evidence)

    assert got.matched_rules == ("R0",)
    assert list(got.missing) == missing


def test_a_field_that_the_rule_names_itself_is_missing_only_while_it_is_absent() -> None:
    policy = policy_of(requiring({}, "evidence.order_id", "amount_usd", "context", "a photo"))

    assert evaluated(policy).missing == ("evidence.order_id", "amount_usd", "context", "a photo")
    paid = {"amount": {"value": 5, "currency": "USD"}}
    assert evaluated(policy, paid, order_id="7").missing == ("context", "a photo")
    assert evaluated(policy, {"amount": {"value": 5}}).missing[1] == "amount_usd"


def test_decisions_of_the_first_engine_ask_for_every_field_of_the_condition() -> None:
    policy = policy_of(requiring({"any": [{"evidence.a": ABSENT}, {"evidence.b": ABSENT}]}))
    request = EngineInput({"action": {"type": "refund"}, "evidence": {"a": 1}})
    first, now = (
        DecisionEngine(policy, registry=CORE, version=version).evaluate(request).decision
        for version in ("0.1.0", "0.2.0")
    )

    assert first.missing == ("evidence.a", "evidence.b")
    assert now.missing == ("evidence.b",)


def decided(rates: dict[str, float] | None = None, **amount: Any) -> DecisionRecord:
    rules = [allowing({"amount_usd": {"lte": limit}}) for limit in (50, 100, 250)]
    policy = policy_of(*rules, rates=rates or {})
    action = {"type": "refund", "amount": amount} if amount else {"type": "refund"}
    return Gate(policy, registry=CORE).decide({"action": action})


@pytest.mark.parametrize(
    ("amount", "missing", "words"),
    [
        (
            {"value": 20},
            "action.amount.currency",
            "`action.amount.currency` is missing; give USD or EUR",
        ),
        (
            {"currency": "USD"},
            "action.amount.value",
            "`action.amount.value` is missing; give a number",
        ),
        (
            {"value": "much", "currency": "USD"},
            "amount_usd",
            "`action.amount.value` is not a number of zero or more; give one",
        ),
        (
            {"value": -1, "currency": "USD"},
            "amount_usd",
            "`action.amount.value` is not a number of zero or more; give one",
        ),
        (
            {"value": "1.000", "currency": "USD"},
            "amount_usd",
            "`action.amount.value` may mean thousands or decimals; give a number",
        ),
        (
            {"value": 20, "currency": "JPY"},
            "amount_usd",
            "the policy has no rate for `action.amount.currency`; give USD or EUR",
        ),
    ],
)
def test_an_unusable_amount_says_once_what_is_wrong_and_what_would_be_right(
    amount: dict[str, Any], missing: str, words: str
) -> None:
    record = decided({"EUR": 2}, **amount)

    assert record.missing == (missing,)
    assert record.what_can_be_done_now == f"amount_usd cannot be used: {words}."
    assert record.explanation.details.count(words) == 1
    assert [fact.why for fact in record.invalid] == [words] * 3
    # An abstention is judged again, never lifted by a grant.
    assert "grant" not in str(record.how_to_proceed)


@pytest.mark.parametrize(
    ("comparison", "value", "why"),
    [
        ({"gt": 1}, "2", "it is a text; give a number"),
        ({"gt": 1}, True, "it is true or false; give a number"),
        ({"eq": "x"}, 5, "it is a number; give a text"),
        ({"in": ["x", "y"]}, [1], "it is a list with items of other kinds; give a text"),
        ({"starts_with": "x"}, {}, "it is an object; give a text"),
        ({"contains": "x"}, 5, "it is a number; give a text or a list of texts"),
        ({"contains": 1}, "x", "it is a text; give a list"),
        ({"gt": 1}, float("nan"), "it is not a finite number; give a number"),
        ({"matches": "x"}, "\ud800", "it holds a character that cannot be compared"),
    ],
)
def test_an_unusable_field_says_why(comparison: dict[str, Any], value: Any, why: str) -> None:
    got = evaluated(policy_of(allowing({"evidence.a": comparison})), a=value)

    assert [str(fact) for fact in got.invalid] == [f"evidence.a cannot be used: {why}"]
    assert got.missing == ("evidence.a",)


def test_a_path_through_a_text_is_unusable() -> None:
    got = evaluated(policy_of(allowing({"evidence.a.b": {"exists": True}})), a="x")

    assert got.invalid[0].why == "a part of its path is not an object"


def test_only_the_facts_that_keep_a_rule_from_being_judged_are_named() -> None:
    condition = {
        "any": [
            {"all": [{"evidence.a": 1}, {"evidence.b": {"gt": 1}}]},
            {"evidence.c": {"gt": 1}},
        ]
    }
    got = evaluated(policy_of(allowing(condition)), a=2, b="x", c="x")

    assert [fact.path for fact in got.invalid] == ["evidence.c"]
