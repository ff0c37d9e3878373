import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from support import reference_evaluator as reference
from support.property_runs import examples
from support.small_policies import (
    CONDITIONS,
    NUMBER_TESTS,
    REQUESTS,
    SMALL_POLICIES,
    policy_of,
    rule,
)

from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.implication import (
    can_apply,
    condition_paths,
    entails,
    equality_key,
    find_gaps,
    list_requirements,
    pinned_values,
    split_conjuncts,
)
from demur.policy.policy import All, Condition, Policy


def read(condition: dict[str, Any]) -> Condition:
    return policy_of(rule(condition)).rules[0].condition


@pytest.mark.parametrize(
    ("known", "goal"),
    [
        ({"evidence.a": 1}, {"evidence.a": 1}),
        ({"evidence.a": 1}, {"evidence.a": {"in": [1, 2]}}),
        ({"evidence.a": {"in": [1, 2]}}, {"evidence.a": {"in": [3, 2, 1]}}),
        ({"evidence.a": 5}, {"evidence.a": {"gt": 1, "ne": 2}}),
        ({"evidence.a": "T-1"}, {"evidence.a": {"matches": "^T-"}}),
        ({"evidence.a": {"gt": 2}}, {"evidence.a": {"gt": 1}}),
        ({"evidence.a": {"gt": 2}}, {"evidence.a": {"gte": 2}}),
        ({"evidence.a": {"lt": 2}}, {"evidence.a": {"lte": 2}}),
        ({"evidence.a": {"lte": 1}}, {"evidence.a": {"lt": 2}}),
        ({"evidence.a": {"not_in": [1, 2]}}, {"evidence.a": {"ne": 2}}),
        ({"evidence.a": {"starts_with": "x"}}, {"evidence.a": {"exists": True}}),
        ({"evidence.a": {"missing": True}}, {"evidence.a": {"missing": True}}),
        ({"evidence.a": 1, "evidence.b": 2}, {"all": [{"evidence.b": 2}, {"evidence.a": 1}]}),
        ({"evidence.a": 1}, {"any": [{"evidence.b": 2}, {"evidence.a": 1}]}),
        (
            {"any": [{"evidence.a": 1}, {"evidence.b": 2}], "request_id": "x"},
            {"any": [{"evidence.b": 2}, {"evidence.a": 1}]},
        ),
        ({"not": {"evidence.a": 1}}, {"not": {"evidence.a": 1}}),
        ({"evidence.a": 1}, {}),
    ],
)
def test_an_entailed_condition_is_recognised(known: dict[str, Any], goal: dict[str, Any]) -> None:
    assert entails(split_conjuncts(read(known)), read(goal))


@pytest.mark.parametrize(
    ("known", "goal"),
    [
        ({"evidence.a": 1}, {"evidence.b": 1}),
        ({"evidence.a": 1}, {"evidence.a": True}),
        ({"evidence.a": {"in": [1, 2]}}, {"evidence.a": 1}),
        ({"evidence.a": {"gte": 2}}, {"evidence.a": {"gt": 2}}),
        ({"evidence.a": {"gt": 1}}, {"evidence.a": {"gt": 2}}),
        ({"evidence.a": {"gt": 1}}, {"evidence.a": {"lt": 5}}),
        ({"evidence.a": {"lt": 3}}, {"evidence.a": {"lt": 2}}),
        ({"evidence.a": {"ne": 1}}, {"evidence.a": {"not_in": [1, 2]}}),
        ({"evidence.a": {"ne": 1}}, {"evidence.a": {"ne": "x"}}),
        ({"evidence.a": {"ne": 1}}, {"evidence.a": {"gt": 1}}),
        ({"evidence.a": {"missing": True}}, {"evidence.a": {"exists": True}}),
        ({"evidence.a": {"exists": True}}, {"evidence.a": {"missing": True}}),
        ({"evidence.a": {"exists": True}}, {"evidence.a": {"contains": "x"}}),
        ({"evidence.a": 1}, {"not": {"evidence.b": 1}}),
        ({}, {"evidence.a": 1}),
    ],
)
def test_a_condition_that_may_fail_is_not_entailed(
    known: dict[str, Any], goal: dict[str, Any]
) -> None:
    assert not entails(split_conjuncts(read(known)), read(goal))


POLICY = policy_of()
ONE_FIELD = NUMBER_TESTS.map(lambda test: {"evidence.a": test})
VALUES = (None, 0, 1, 1.5, 2, 3)


@settings(max_examples=examples(300))
@given(ONE_FIELD | CONDITIONS, ONE_FIELD | CONDITIONS)
def test_an_entailed_condition_holds_wherever_the_known_ones_hold(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """INVARIANT: what is entailed holds wherever everything known holds."""
    try:
        known, goal = read(one), read(other)
    except PolicyError:
        return
    if entails(split_conjuncts(known), goal):
        for a, b, amount in itertools.product(VALUES, repeat=3):
            money = {"value": amount, "currency": None if amount is None else "USD"}
            facts = {"evidence": {"a": a, "b": b}, "action": {"amount": money}}
            if reference.judge(known, facts, POLICY) == "true":
                assert reference.judge(goal, facts, POLICY) == "true"


@given(CONDITIONS)
def test_a_condition_is_the_same_as_itself_turned_round(raw: dict[str, Any]) -> None:
    try:
        condition = read(raw)
    except PolicyError:
        return
    parts = split_conjuncts(condition)

    assert equality_key(All(parts[::-1])) == equality_key(All(parts))
    assert entails(parts, condition)


@settings(max_examples=examples(300))
@given(ONE_FIELD | CONDITIONS, ONE_FIELD | CONDITIONS)
def test_an_entailed_condition_pins_no_more_than_the_known_ones(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    try:
        known, goal = split_conjuncts(read(one)), split_conjuncts(read(other))
    except PolicyError:
        return
    if all(entails(known, part) for part in goal):
        assert pinned_values(goal) <= pinned_values(known)


def test_true_is_not_the_number_one() -> None:
    assert equality_key(read({"evidence.a": 1})) != equality_key(read({"evidence.a": True}))
    assert equality_key(read({"evidence.a": 1})) == equality_key(read({"evidence.a": 1.0}))


def test_the_paths_of_a_condition_are_all_it_reads() -> None:
    condition = read({"action_type": "x", "not": {"any": [{"evidence.a": 1}, {"evidence.b": 1}]}})

    assert condition_paths(condition) == {"action.type", "evidence.a", "evidence.b"}


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ({}, True),
        ({"evidence.a": 1}, True),
        ({"action_type": "refund"}, True),
        ({"action_type": "login"}, False),
        ({"action_type": {"in": ["login", "refund"]}, "evidence.a": 1}, True),
        ({"action_type": "login", "evidence.a": 1}, False),
        ({"action_type": {"starts_with": "ref"}}, True),
        ({"not": {"action_type": "refund"}}, False),
        ({"not": {"action_type": "login"}}, True),
        ({"not": {"evidence.a": 1}}, True),
        ({"any": [{"action_type": "login"}, {"evidence.a": 1}]}, True),
        ({"any": [{"action_type": "login"}, {"action_type": "logout"}]}, False),
        ({"not": {"any": [{"action_type": "refund"}, {"evidence.a": 1}]}}, False),
        # Not false but unusable, which an evaluation reports.
        ({"action_type": 5}, True),
    ],
)
def test_a_rule_that_the_action_rules_out_cannot_apply(
    condition: dict[str, Any], applies: bool
) -> None:
    assert can_apply(read(condition), "refund") is applies


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
def test_an_amount_check_covers_the_relevant_half(field: str, asked: str, closed: bool) -> None:
    assert (found({field: {"gt": 1}}, {asked: {"missing": True}}) == {}) is closed


@settings(max_examples=examples(150))
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
