from typing import Any

import pytest
import reference
from hypothesis import given, settings
from small_policies import REQUESTS, SMALL_POLICIES, policy_of, rule

from demur.codes.vocabulary import Verdict
from demur.policy.gaps import find_gaps, list_requirements
from demur.policy.policy import Policy


def found(condition: dict[str, Any], *asked: dict[str, Any], **more: Any) -> dict[str, bool]:
    """Return the gaps of a rule beside requirements with these conditions."""
    required = [rule(row, stage="REQUIREMENTS", **more) for row in asked]
    policy = policy_of(*required, rule(condition, "DENY"))
    return dict(find_gaps(policy.rules[-1], list_requirements(policy)))


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ({"evidence.a": {"gt": 1}}, {"evidence.a": False}),
        ({"evidence.a": {"ne": 1}}, {"evidence.a": True}),
        ({"evidence.a": {"not_in": [1]}}, {"evidence.a": True}),
        ({"not": {"evidence.a": 1}}, {"evidence.a": True}),
        ({"not": {"evidence.a": {"ne": 1}}}, {"evidence.a": False}),
        ({"evidence.a": {"gt": 1, "ne": 3}}, {"evidence.a": True}),
        (
            {"any": [{"evidence.a": 1}, {"evidence.b": 1}]},
            {"evidence.a": False, "evidence.b": False},
        ),
        ({"evidence.a": {"matches": "x"}}, {"evidence.a": False}),
    ],
)
def test_a_field_that_may_be_left_out_is_a_gap(
    condition: dict[str, Any], want: dict[str, bool]
) -> None:
    assert found(condition) == want


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"action_type": "refund"},
        {"not": {"action_type": "refund"}},
        {"findings.codes": {"contains": "RCE_RISK"}},
        {"evidence.a": {"exists": True, "gt": 1}},
        {"not": {"evidence.a": {"missing": True}}, "evidence.a": 1},
        {"any": [{"evidence.a": {"missing": True}}, {"evidence.a": {"gt": 1}}]},
        {"any": [{"not": {"evidence.a": {"exists": True}}}, {"evidence.a": {"gt": 1}}]},
    ],
)
def test_a_rule_that_says_what_happens_without_the_field_has_no_gap(
    condition: dict[str, Any],
) -> None:
    assert found(condition) == {}


REFUND = {"action_type": "refund"}
RISK = {**REFUND, "evidence.risk": {"gt": 1}}


@pytest.mark.parametrize(
    "requirement",
    [
        {"evidence.risk": {"missing": True}},
        {"not": {"evidence.risk": {"exists": True}}},
        {**REFUND, "evidence.risk": {"missing": True}},
        {"action_type": {"in": ["refund", "purchase"]}, "evidence.risk": {"missing": True}},
        {
            **REFUND,
            "any": [{"evidence.id": {"missing": True}}, {"evidence.risk": {"missing": True}}],
        },
        {"any": [{"action_type": "login"}, {**REFUND, "evidence.risk": {"missing": True}}]},
    ],
)
def test_a_requirement_for_the_same_action_closes_it(requirement: dict[str, Any]) -> None:
    assert found(RISK, requirement) == {}


@pytest.mark.parametrize(
    "requirement",
    [
        {"evidence.other": {"missing": True}},
        {"action_type": "purchase", "evidence.risk": {"missing": True}},
        {**REFUND, "evidence.vip": True, "evidence.risk": {"missing": True}},
        {**REFUND, "evidence.risk": {"missing": True}, "evidence.id": {"missing": True}},
        {**REFUND, "evidence.risk": {"exists": True}},
    ],
)
def test_a_requirement_that_may_stay_silent_does_not(requirement: dict[str, Any]) -> None:
    assert found(RISK, requirement) == {"evidence.risk": False}


def test_a_requirement_on_trial_asks_for_nothing() -> None:
    assert found(RISK, {"evidence.risk": {"missing": True}}, shadow=True) == {
        "evidence.risk": False
    }


def test_a_requirement_may_take_for_granted_what_another_asks_for() -> None:
    large = {"amount_usd": {"gt": 100}, "evidence.risk": {"missing": True}}
    condition = {"amount_usd": {"gt": 250}, "evidence.risk": {"gt": 1}}

    assert found(condition, large) == {"amount_usd": False, "evidence.risk": False}
    assert found(condition, large, {"amount_usd": {"missing": True}}) == {}


def test_requirements_that_each_wait_for_the_other_ask_for_nothing() -> None:
    condition = {"evidence.a": {"gt": 1}, "evidence.b": {"gt": 1}}
    one = {"evidence.a": {"missing": True}, "evidence.b": {"gt": 1}}
    other = {"evidence.b": {"missing": True}, "evidence.a": {"gt": 1}}

    assert found(condition, one, other) == {"evidence.a": False, "evidence.b": False}


@pytest.mark.parametrize(
    ("field", "asked", "closed"),
    [
        ("amount_usd", "amount_usd", True),
        ("amount_usd", "action.amount.value", True),
        ("amount_usd", "amount_currency", True),
        ("action.amount.value", "amount_usd", True),
        ("action.amount.value", "amount_currency", False),
        ("amount_usd", "action.amount", False),
    ],
)
def test_an_amount_is_asked_for_by_the_half_that_matters(
    field: str, asked: str, closed: bool
) -> None:
    assert (found({field: {"gt": 1}}, {asked: {"missing": True}}) == {}) is closed


@settings(max_examples=150)
@given(SMALL_POLICIES, REQUESTS)
def test_a_rule_without_gaps_is_not_passed_in_silence(
    policy: Policy, request: dict[str, Any]
) -> None:
    """INVARIANT: a rule without gaps is never passed by leaving something out."""
    facts = {**request, "findings": {"codes": [], "surfaces": [], "count": 0}}
    states = {row.id: reference.judge(row.condition, facts, policy) for row in policy.rules}
    asked = [
        states[row.id]
        for row in policy.rules
        if row.stage == "REQUIREMENTS" and not row.shadow and states[row.id] == "true"
    ]
    for row in policy.rules:
        if row.then.verdict is not Verdict.ALLOW and not find_gaps(row, list_requirements(policy)):
            assert states[row.id] != "missing" or asked
