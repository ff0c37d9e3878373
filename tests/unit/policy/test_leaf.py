"""Every operator over every kind of fact."""

from enum import IntEnum, StrEnum
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policy.facts import MISSING, UNUSABLE
from demur.policy.leaf import FALSE, INVALID, MISSED, TRUE, compile_comparison
from demur.policy.policy import Compare, Operator


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    TWO = 2


def state(operator: str, operand: Any, fact: Any) -> int:
    return compile_comparison(Compare("evidence.x", Operator(operator), operand))(fact)


# One sound operand for each operator and kind, so that tables below cover them all.
OPERANDS: list[tuple[str, Any]] = [
    ("eq", "red"),
    ("eq", 2),
    ("eq", True),
    ("ne", "red"),
    ("ne", 2),
    ("ne", True),
    ("gt", 2),
    ("gte", 2),
    ("lt", 2),
    ("lte", 2),
    ("in", ("red", "blue")),
    ("in", (2, 3)),
    ("in", (True,)),
    ("not_in", ("red", "blue")),
    ("not_in", (2, 3)),
    ("contains", "red"),
    ("contains", 2),
    ("starts_with", "re"),
    ("matches", "^r.d$"),
]


def kind(value: Any) -> type:
    first = value[0] if isinstance(value, tuple) else value
    return bool if isinstance(first, bool) else str if isinstance(first, str) else float


def test_every_operator_is_in_the_table() -> None:
    assert {operator for operator, _ in OPERANDS} | {"exists", "missing"} == set(Operator)


@pytest.mark.parametrize(("operator", "operand"), OPERANDS)
def test_a_missing_fact_is_missing_and_an_unusable_one_invalid(operator: str, operand: Any) -> None:
    assert state(operator, operand, MISSING) == MISSED
    assert state(operator, operand, UNUSABLE) == INVALID


@pytest.mark.parametrize(("operator", "operand"), OPERANDS)
@pytest.mark.parametrize("fact", [nan, inf, -inf, {}, {"a": 1}, object(), b"red", {1}, [None]])
def test_what_is_no_usable_value_is_invalid_to_every_operator(
    operator: str, operand: Any, fact: Any
) -> None:
    assert state(operator, operand, fact) == INVALID


@pytest.mark.parametrize(("operator", "operand"), OPERANDS)
@pytest.mark.parametrize("fact", ["2", "red", 2, 2.0, True, False, 1, 0])
def test_a_value_of_another_kind_is_invalid_and_never_converted(
    operator: str, operand: Any, fact: Any
) -> None:
    takes = kind(operand)
    # Only texts and lists contain anything, and a text contains only texts.
    within = isinstance(fact, str) and takes is str
    fits = within if operator == "contains" else takes is kind(fact)

    assert (state(operator, operand, fact) != INVALID) is fits


@pytest.mark.parametrize("fact", ["", "x", 0, False, nan, [], {}])
def test_presence_asks_nothing_about_the_value(fact: Any) -> None:
    assert state("exists", True, fact) == TRUE
    assert state("missing", True, fact) == FALSE


def test_presence_of_what_is_missing_or_unusable() -> None:
    assert state("exists", True, MISSING) == FALSE
    assert state("missing", True, MISSING) == TRUE
    assert state("exists", True, UNUSABLE) == INVALID
    assert state("missing", True, UNUSABLE) == INVALID


@pytest.mark.parametrize(
    ("operator", "operand", "holds", "fails"),
    [
        ("eq", "red", ["red", Colour.RED], ["Red", "red ", ""]),
        ("eq", 2, [2, 2.0, Level.TWO], [3, -2, 2.0000001]),
        ("eq", True, [True], [False]),
        ("ne", "red", ["blue"], ["red"]),
        ("ne", 2, [3, 10**400], [2, 2.0]),
        ("ne", True, [False], [True]),
        ("gt", 2, [2.5, 10**400], [2, 2.0, -(10**400)]),
        ("gte", 2, [2, 3], [1.9]),
        ("lt", 2, [1, -(10**400)], [2, 3]),
        ("lte", 2, [2, 1], [2.1]),
        ("in", ("red", "blue"), ["red", "blue"], ["green", "re"]),
        ("in", (2, 3), [2, 3.0], [4]),
        ("in", (True,), [True], [False]),
        ("not_in", ("red", "blue"), ["green"], ["red", "blue"]),
        ("not_in", (2, 3), [4], [2.0]),
        ("contains", "red", ["a red b", ["red"], ("blue", "red", 5)], ["re", [], ["Red", "reds"]]),
        ("contains", 2, [[2], [1, 2.0], ["x", 2]], [[True], ["2"], [], [3]]),
        ("contains", True, [[True]], [[1], ["true"]]),
        ("contains", 1, [[1]], [[True]]),
        ("starts_with", "re", ["red", "re"], ["Red", "are", ""]),
        ("matches", "r.d", ["red", "a rod"], ["rd", "RED", ""]),
        ("matches", "^r.d$", ["red"], ["red\n", "xred"]),
    ],
)
def test_a_usable_value_makes_it_true_or_false(
    operator: str, operand: Any, holds: list[Any], fails: list[Any]
) -> None:
    assert [state(operator, operand, fact) for fact in holds] == [TRUE] * len(holds)
    assert [state(operator, operand, fact) for fact in fails] == [FALSE] * len(fails)


@pytest.mark.parametrize("broken", [None, nan, {}, []])
def test_one_unusable_item_makes_a_list_unusable(broken: Any) -> None:
    assert state("contains", "red", ["red", broken]) == INVALID


def test_a_lone_surrogate_is_invalid_to_a_pattern_and_plain_text_to_the_rest() -> None:
    assert state("matches", "red", "red\ud800") == INVALID
    assert state("starts_with", "red", "red\ud800") == TRUE
    assert state("eq", "red", "red\ud800") == FALSE


def test_a_pattern_that_backtracking_cannot_finish_is_answered_at_once() -> None:
    assert state("matches", "^(a+)+$", "a" * 50_000 + "b") == FALSE


def test_the_states_order_so_that_the_least_decides_a_conjunction() -> None:
    assert FALSE < INVALID < MISSED < TRUE


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(OPERANDS), ANYTHING | st.sampled_from([MISSING, UNUSABLE, "\ud800"]))
def test_any_fact_has_a_state(compare: tuple[str, Any], fact: Any) -> None:
    assert state(*compare, fact) in {FALSE, INVALID, MISSED, TRUE}


@given(st.sampled_from([c for c in OPERANDS if c[0] in {"eq", "in"}]), ANYTHING)
def test_a_refused_value_is_the_opposite_of_a_wanted_one(
    compare: tuple[str, Any], fact: Any
) -> None:
    operator, operand = compare
    opposite = {TRUE: FALSE, FALSE: TRUE}
    wanted = state(operator, operand, fact)

    assert state({"eq": "ne", "in": "not_in"}[operator], operand, fact) == (
        opposite.get(wanted, wanted)
    )
