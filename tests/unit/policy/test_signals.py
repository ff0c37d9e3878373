"""Rules read signals; a missing one is never a number, and leaves a refusal open."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support import reference_evaluator as reference

from demur.codes.registry import Registry
from demur.errors import PolicyError
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.lint import lint_policy
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy

CORE = Registry.load()
REQUEST = {"action": {"type": "refund"}}
RISK = "CHARGEBACK_RISK_BLOCK"


def policy_of(*rules: Mapping[str, Any]) -> Policy:
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    return parse_policy(json.dumps({**head, "rules": list(rules)}), registry=CORE)


def allow(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": "A", "stage": "ALLOW_PATHS", "if": condition, "then": {"verdict": "ALLOW"}}


def deny(condition: Mapping[str, Any], name: str = "D", **more: Any) -> dict[str, Any]:
    then = {"verdict": "DENY", "reason_codes": [RISK]}
    return {"id": name, "stage": "HARD_BLOCKS", "if": condition, "then": then, **more}


def ask(condition: Mapping[str, Any]) -> dict[str, Any]:
    then = {"verdict": "ESCALATE", "reason_codes": ["MISSING_EVIDENCE_REFUND"]}
    return {"id": "Q", "stage": "REQUIREMENTS", "if": condition, "then": then}


REFUND = allow({"action_type": "refund"})


def evaluate(policy: Policy, signals: Mapping[str, Any] | None = None) -> Evaluation:
    got = CompiledPolicy(policy, registry=CORE).evaluate(REQUEST, (), signals)
    want = reference.evaluate(policy, REQUEST, (), CORE, signals)
    assert (got.verdict, list(got.reason_codes)) == (want["verdict"], want["reason_codes"])
    assert sorted(got.missing_signals) == sorted(want["missing_signals"])
    return got


@pytest.mark.parametrize(
    ("condition", "signals", "verdict"),
    [
        ({"signals.fraud": {"lt": 0.5}}, {"fraud": 0.4}, "ALLOW"),
        ({"signals.fraud": {"lt": 0.5}}, {"fraud": 0.6}, "ESCALATE"),
        ({"signals.plan": "gold"}, {"plan": "gold"}, "ALLOW"),
        ({"signals.verified": True}, {"verified": True}, "ALLOW"),
        ({"signals.verified": True}, {"verified": 1}, "ABSTAIN"),
        ({"signals.fraud": {"lt": 0.5}}, {"fraud": "0.1"}, "ABSTAIN"),
        ({"signals.guards.pii.score": {"lt": 0.5}}, {"guards": {"pii": {"score": 0.1}}}, "ALLOW"),
    ],
)
def test_a_rule_reads_signals_by_their_type(
    condition: dict[str, Any], signals: dict[str, Any], verdict: str
) -> None:
    assert evaluate(policy_of(allow(condition)), signals).verdict == verdict


@pytest.mark.parametrize(
    "condition",
    [
        {"signals.fraud": {"lt": 0.5}},
        {"signals.fraud": {"ne": 1}},
        {"signals.fraud": {"not_in": [1, 2]}},
        {"not": {"signals.fraud": {"gte": 0.5}}},
        {"not": {"not": {"signals.fraud": {"lt": 0.5}}}},
        {"any": [{"signals.fraud": {"lt": 0.5}}, {"signals.fraud": {"gte": 0.5}}]},
        {"all": [{"action_type": "refund"}, {"not": {"signals.fraud": 1}}]},
    ],
)
@pytest.mark.parametrize("signals", [None, {}, {"fraud": None}, {"other": 0}])
def test_a_missing_signal_is_not_zero_and_allows_nothing(
    condition: dict[str, Any], signals: dict[str, Any] | None
) -> None:
    assert evaluate(policy_of(allow(condition)), signals).verdict == "ESCALATE"


@pytest.mark.parametrize(
    "condition",
    [
        {"signals.fraud": {"missing": True}},
        {"not": {"signals.fraud": {"exists": True}}},
        {"any": [{"signals.fraud": {"missing": True}}, {"action_type": "refund"}]},
    ],
)
def test_a_rule_cannot_allow_because_a_signal_is_missing(condition: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=r"cannot rest on `signals\.fraud` being missing"):
        policy_of(allow(condition))
    with pytest.raises(PolicyError, match="`exists` takes `true` alone"):
        policy_of(allow({"signals.fraud": {"exists": False}}))


@pytest.mark.parametrize(
    "condition",
    [
        {"signals.fraud": {"gt": 0.9}},
        {"not": {"signals.fraud": {"lte": 0.9}}},
        {"any": [{"evidence.x": 1}, {"signals.fraud": {"gt": 0.9}}]},
        {"not": {"evidence.x": 1, "signals.fraud": {"lte": 0.9}}},
    ],
)
def test_a_refusal_that_needs_a_missing_signal_leaves_the_request_unjudged(
    condition: dict[str, Any],
) -> None:
    policy = policy_of(REFUND, deny(condition))

    got = evaluate(policy)

    assert (got.verdict, got.reason_codes) == ("ABSTAIN", ("CONTEXT_MISSING",))
    assert got.missing == ("signals.fraud",)
    assert evaluate(policy, {"fraud": 0.1}).verdict == "ALLOW"
    assert evaluate(policy, {"fraud": 0.95}).verdict == "DENY"


@pytest.mark.parametrize(
    "rule",
    [
        deny({"signals.fraud": {"exists": True, "gt": 0.9}}),
        deny({"action_type": "transfer", "signals.fraud": {"gt": 0.9}}),
        deny({"evidence.x": 1, "signals.fraud": {"gt": 0.9}}),
        deny({"signals.fraud": {"gt": 0.9}}, shadow=True),
    ],
)
def test_a_rule_that_no_signal_could_make_match_is_not_open(rule: dict[str, Any]) -> None:
    assert evaluate(policy_of(REFUND, rule)).verdict == "ALLOW"


def test_a_rule_that_asks_for_the_signal_decides_instead() -> None:
    block = deny({"signals.fraud": {"gt": 0.9}})
    required = ask({"signals.fraud": {"missing": True}})

    got = evaluate(policy_of(REFUND, block, required))

    assert (got.verdict, got.reason_codes) == ("ESCALATE", ("MISSING_EVIDENCE_REFUND",))
    assert got.missing == ("signals.fraud",)


def test_only_the_signals_that_matter_are_named() -> None:
    either = {"any": [{"evidence.x": 1, "signals.a": 1}, {"signals.b": {"gt": 1}}]}
    got = evaluate(policy_of(REFUND, deny(either), deny({"signals.c": 1}, "E")), {"c": 2})

    assert [tuple(gap) for gap in got.missing_signals] == [("D", "signals.b")]


def test_signals_inside_the_request_are_not_read() -> None:
    compiled = CompiledPolicy(policy_of(allow({"signals.fraud": {"lt": 0.5}})), registry=CORE)

    assert compiled.evaluate({**REQUEST, "signals": {"fraud": 0}}).verdict == "ESCALATE"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("signals", "`signals` names no signal"),
        ("signals.guards", "`signals.guards` names no signal"),
        ("signals.uncertainty_score", "which memory sets"),
        ("signals.failure_similarity.score", "which memory sets"),
        ("signal.fraud", "unknown field"),
    ],
)
def test_a_field_that_is_no_signal_is_an_error_with_help(field: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        policy_of(deny({field: {"gt": 1}}))

    assert caught.value.problems[0].help
    assert str(caught.value.problems[0].where).startswith("policy:")


def test_lint_does_not_call_a_signal_uncovered() -> None:
    policy = policy_of(REFUND, deny({"signals.fraud": {"gt": 0.9}}))

    assert [found.rule for found in lint_policy(policy, CORE)] == []
