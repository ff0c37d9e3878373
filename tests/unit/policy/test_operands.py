"""What stands behind an operator, and what can never hold."""

from enum import StrEnum
from itertools import product
from math import inf, nan
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from demur.policy.leaf import TRUE, compile_comparison
from demur.policy.operands import find_contradiction, scalar_kind, operand_problem
from demur.policy.policy import Compare, Operator


class Word(StrEnum):
    A = "a"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", "text"),
        (Word.A, "text"),
        (True, "boolean"),
        (0, "number"),
        (10**400, "number"),
        (0.5, "number"),
        (nan, None),
        (inf, None),
        (None, None),
        ([], None),
        ({}, None),
        (b"x", None),
    ],
)
def test_a_scalar_is_of_one_kind_and_the_rest_of_none(value: object, kind: str | None) -> None:
    assert scalar_kind(value) == kind


LIST = "takes a list with at least one value"
ONE_KIND = "takes values of one kind: texts, numbers, or booleans"
SCALAR = "takes a text, a number, true or false"


@pytest.mark.parametrize(
    ("operator", "operand", "problem"),
    [
        ("exists", True, None),
        ("exists", False, "`exists` takes `true` alone"),
        ("exists", 1, "`exists` takes `true` alone"),
        ("missing", None, "`missing` takes `true` alone"),
        ("gt", 5, None),
        ("gt", -0.5, None),
        ("gt", True, "`gt` takes a number"),
        ("gte", "5", "`gte` takes a number"),
        ("lt", nan, "`lt` takes a number"),
        ("lte", inf, "`lte` takes a number"),
        ("gt", None, "`gt` takes a number"),
        ("gt", [5], "`gt` takes a number"),
        ("in", ["a", "b"], None),
        ("in", [1, 2.5], None),
        ("in", [True, False], None),
        ("in", [], f"`in` {LIST}"),
        ("in", "refund", f"`in` {LIST}"),
        ("not_in", 5, f"`not_in` {LIST}"),
        ("in", {"a": 1}, f"`in` {LIST}"),
        ("in", [1, "a"], f"`in` {ONE_KIND}"),
        ("in", [1, True], f"`in` {ONE_KIND}"),
        ("in", [None], f"`in` {ONE_KIND}"),
        ("not_in", [[1]], f"`not_in` {ONE_KIND}"),
        ("not_in", [nan], f"`not_in` {ONE_KIND}"),
        ("in", ["a", "a"], "a value stands twice in the list"),
        ("in", [1, 1.0], "a value stands twice in the list"),
        ("eq", "", None),
        ("eq", False, None),
        ("ne", 0, None),
        ("eq", None, f"`eq` {SCALAR}"),
        ("ne", [1], f"`ne` {SCALAR}"),
        ("eq", {}, f"`eq` {SCALAR}"),
        ("eq", nan, f"`eq` {SCALAR}"),
        ("contains", "x", None),
        ("contains", 5, None),
        ("contains", ["x"], f"`contains` {SCALAR}"),
        ("starts_with", "x", None),
        ("starts_with", "", "`starts_with` takes a text"),
        ("starts_with", 5, "`starts_with` takes a text"),
        ("matches", "^a.*b$", None),
        ("matches", 5, "`matches` takes a pattern"),
        ("matches", ["a"], "`matches` takes a pattern"),
    ],
)
def test_each_operator_takes_its_operands(operator: str, operand: Any, problem: str | None) -> None:
    assert operand_problem(Operator(operator), operand) == problem


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "(?P<x>a)(?P=x)", "(", "a{2000}", "*", "(?>a)"]
)
def test_a_pattern_that_is_not_linear_is_refused(pattern: str) -> None:
    problem = operand_problem(Operator.MATCHES, pattern)

    assert problem is not None
    assert problem.startswith("not a linear-time pattern: ")
    assert "b'" not in problem


def test_a_refused_pattern_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    operand_problem(Operator.MATCHES, "(")

    assert capfd.readouterr() == ("", "")


def path_of(path: str = "evidence.x", **ops: Any) -> str | None:
    return find_contradiction(Compare(path, Operator(op), value) for op, value in ops.items())


@pytest.mark.parametrize(
    "ops",
    [
        {"missing": True, "eq": "a"},
        {"missing": True, "exists": True},
        {"missing": True, "ne": 5},
        {"gt": 5, "lt": 5},
        {"gt": 5, "lte": 5},
        {"gte": 5, "lt": 5},
        {"gte": 6, "lte": 5},
        {"eq": 5, "gt": 5},
        {"eq": 5, "lt": 5},
        {"eq": 5, "gte": 6},
        {"eq": 5, "lte": 4},
        {"eq": 5, "ne": 5},
        {"eq": 5, "ne": 5.0},
        {"eq": "a", "ne": "a"},
        {"eq": "a", "in": ("b", "c")},
        {"eq": "a", "not_in": ("a", "b")},
        {"in": ("a", "b"), "not_in": ("b", "a")},
        {"in": (1, 2), "gt": 2},
        {"in": (1, 2), "lt": 1},
        {"in": (1,), "ne": 1},
        {"eq": "a", "gt": 1},
        {"eq": True, "gte": 0},
        {"eq": True, "in": (1, 2)},
        {"eq": "5", "ne": 5},
        {"starts_with": "a", "lt": 5},
        {"matches": "a", "eq": 5},
        {"contains": "a", "gt": 5},
        {"contains": "a", "eq": True},
        {"ne": "a", "not_in": (1, 2)},
    ],
)
def test_what_no_value_can_satisfy_is_found(ops: dict[str, Any]) -> None:
    assert path_of(**ops) == "evidence.x"


@pytest.mark.parametrize(
    "ops",
    [
        {},
        {"missing": True},
        {"exists": True, "eq": "a"},
        {"gte": 5, "lte": 5},
        {"gte": 5, "lte": 5, "eq": 5},
        {"gt": 4, "lt": 5},
        {"eq": 5, "gte": 5, "lte": 5},
        {"in": (1, 2), "gt": 1},
        {"in": ("a", "b"), "ne": "a"},
        {"in": ("a", "b"), "not_in": ("a",), "eq": "b"},
        {"eq": "abc", "starts_with": "a", "matches": "c$", "contains": "b"},
        {"contains": 5},
        {"ne": "a", "not_in": ("b",)},
        {"eq": True, "ne": False},
    ],
)
def test_what_some_value_satisfies_passes(ops: dict[str, Any]) -> None:
    assert path_of(**ops) is None


def test_an_amount_is_a_number_and_never_negative() -> None:
    assert path_of("amount_usd", lt=0) == "amount_usd"
    assert path_of("amount_usd", eq=-1) == "amount_usd"
    assert path_of("amount_usd", eq="5") == "amount_usd"
    assert path_of("amount_usd", starts_with="5") == "amount_usd"
    assert path_of("amount_usd", contains="5") == "amount_usd"
    assert path_of("amount_usd", lte=0) is None
    assert path_of("amount_usd", eq=0) is None
    assert path_of("evidence.x", lt=0) is None


def test_other_paths_do_not_contradict() -> None:
    compares = [Compare("a.x", Operator.EQ, 1), Compare("a.y", Operator.EQ, 2)]

    assert find_contradiction(compares) is None
    assert find_contradiction([*compares, Compare("a.y", Operator.EQ, 3)]) == "a.y"


OPS = st.lists(
    st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), st.integers(-2, 2))
    | st.tuples(st.sampled_from(["eq", "ne"]), st.integers(-2, 2) | st.sampled_from(["a", "b"]))
    | st.tuples(
        st.sampled_from(["in", "not_in"]),
        st.lists(st.integers(-2, 2), min_size=1, unique=True).map(tuple)
        | st.sampled_from([("a",), ("a", "b"), (True,), (True, False)]),
    ),
    max_size=4,
)


@given(OPS)
def test_a_condition_called_impossible_holds_for_no_value(ops: list[tuple[str, Any]]) -> None:
    compares = [Compare("evidence.x", Operator(op), value) for op, value in ops]
    values = ["a", "b", "c", True, False, *(n / 2 for n in range(-7, 8))]
    tests = [compile_comparison(compare) for compare in compares]
    holds = any(all(test(value) == TRUE for test in tests) for value in values)

    # Every way in which these few operators can be met shows in these few values. That nothing
    # but true and false is a boolean, the check does not know.
    assume(("not_in", (True, False)) not in ops)
    assert (find_contradiction(compares) is None) is holds


def test_the_order_of_bounds_does_not_matter() -> None:
    bounds = [Compare("a.x", Operator.GT, 1), Compare("a.x", Operator.LT, 1)]

    assert {find_contradiction(pair) for pair in product(bounds, bounds) if len({*pair}) == 2} == {
        "a.x"
    }
