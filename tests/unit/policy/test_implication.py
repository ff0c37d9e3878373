import itertools
from typing import Any

import pytest
import reference
from hypothesis import given, settings
from small_policies import CONDITIONS, NUMBER_TESTS, policy_of, rule

from demur.errors import PolicyError
from demur.policy.implication import (
    can_apply,
    split_conjuncts,
    entails,
    pinned_values,
    condition_paths,
    equality_key,
)
from demur.policy.policy import All, Condition


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
def test_what_holds_wherever_others_hold_is_seen(
    known: dict[str, Any], goal: dict[str, Any]
) -> None:
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
def test_what_may_fail_to_hold_is_not_taken_for_sure(
    known: dict[str, Any], goal: dict[str, Any]
) -> None:
    assert not entails(split_conjuncts(read(known)), read(goal))


POLICY = policy_of()
ONE_FIELD = NUMBER_TESTS.map(lambda test: {"evidence.a": test})
VALUES = (None, 0, 1, 1.5, 2, 3)


@settings(max_examples=300)
@given(ONE_FIELD | CONDITIONS, ONE_FIELD | CONDITIONS)
def test_what_is_entailed_holds(one: dict[str, Any], other: dict[str, Any]) -> None:
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


@settings(max_examples=300)
@given(ONE_FIELD | CONDITIONS, ONE_FIELD | CONDITIONS)
def test_what_is_entailed_pins_no_more_than_what_is_known(
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
