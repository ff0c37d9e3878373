"""What a rule can read, and what of it the caller can bend."""

import time
from collections.abc import Iterator, Mapping
from enum import IntEnum, StrEnum
from itertools import product
from math import inf, nan
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from demur.codes.vocabulary import Surface
from demur.model.finding import Finding
from demur.policy.facts import (
    FALSE,
    INVALID,
    MISSED,
    MISSING,
    TRUE,
    UNUSABLE,
    amount_in_usd,
    build_facts,
    compile_comparison,
    fetch_fact,
    find_contradiction,
    operand_problem,
    scalar_kind,
)
from demur.policy.policy import Compare, Operator


class Frozen(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        ({"evidence": {"a": {"b": 5}}}, 5),
        ({"evidence": {"a": {"b": 0}}}, 0),
        ({"evidence": {"a": {"b": False}}}, False),
        ({"evidence": {"a": {"b": ""}}}, ""),
        ({"evidence": {"a": {"b": None}}}, MISSING),
        ({"evidence": {"a": {}}}, MISSING),
        ({"evidence": {"a": None}}, MISSING),
        ({"evidence": None}, MISSING),
        ({}, MISSING),
        ({"evidence": {"a": 5}}, UNUSABLE),
        ({"evidence": {"a": "b"}}, UNUSABLE),
        ({"evidence": {"a": [{"b": 5}]}}, UNUSABLE),
        ({"evidence": 0}, UNUSABLE),
        ({"evidence": ""}, UNUSABLE),
        (MappingProxyType({"evidence": MappingProxyType({"a": Frozen(b=5)})}), 5),
        (Frozen(evidence=Frozen(a=Frozen())), MISSING),
        ({"evidence.a.b": 5}, MISSING),
    ],
)
def test_a_path_ends_in_a_fact_or_says_why_not(request_: Mapping[str, Any], want: Any) -> None:
    got = fetch_fact(request_, "evidence.a.b")

    assert got == want
    assert type(got) is type(want)


def test_the_markers_name_themselves() -> None:
    assert repr((MISSING, UNUSABLE)) == "(MISSING, UNUSABLE)"


def amount(value: Any = None, currency: Any = None, **more: Any) -> Any:
    request = {"action": {"amount": {"value": value, "currency": currency, **more}}}
    return amount_in_usd(request, {"EUR": 2, "GBP": 1.25})


@pytest.mark.parametrize(
    ("value", "currency", "want"),
    [
        (20, "USD", 20),
        (20.5, "USD", 20.5),
        (0, "USD", 0),
        (-0.0, "USD", 0),
        ("20.50", "USD", 20.5),
        ("+2e1", "USD", 20),
        (".5", "USD", 0.5),
        ("5.", "USD", 5),
        (20, "EUR", 40),
        ("20", "GBP", 25),
        (10**400, "USD", 10**400),
        (10**400, "EUR", 2 * 10**400),
        (10**400, "GBP", UNUSABLE),
        (None, None, MISSING),
        (None, "USD", UNUSABLE),
        (20, None, UNUSABLE),
        (20, "XXX", UNUSABLE),
        (20, "usd", UNUSABLE),
        (20, "", UNUSABLE),
        (20, 840, UNUSABLE),
        (20, ["USD"], UNUSABLE),
        (-1, "USD", UNUSABLE),
        (-(10**400), "USD", UNUSABLE),
        ("-1", "USD", UNUSABLE),
        (nan, "USD", UNUSABLE),
        (inf, "USD", UNUSABLE),
        ("NaN", "USD", UNUSABLE),
        ("sNaN", "USD", UNUSABLE),
        ("Infinity", "USD", UNUSABLE),
        ("1e999", "USD", UNUSABLE),
        ("1,000", "USD", UNUSABLE),
        ("1_000", "USD", UNUSABLE),
        ("1.000", "USD", UNUSABLE),
        ("+12.500", "EUR", UNUSABLE),
        ("999.999", "USD", UNUSABLE),
        ("0.500", "USD", 0.5),
        ("1.00", "USD", 1),
        ("1.0000", "USD", 1),
        ("1000.500", "USD", 1000.5),
        (" 20 ", "USD", UNUSABLE),
        ("20\n", "USD", UNUSABLE),
        ("0x10", "USD", UNUSABLE),
        ("twenty", "USD", UNUSABLE),
        ("", "USD", UNUSABLE),
        ("$20", "USD", UNUSABLE),
        (True, "USD", UNUSABLE),
        ([20], "USD", UNUSABLE),
        ({"value": 20}, "USD", UNUSABLE),
    ],
)
def test_an_amount_is_converted_by_the_policy_or_unusable(
    value: Any, currency: Any, want: Any
) -> None:
    assert amount(value, currency) == want


def test_a_rate_that_the_caller_sends_is_never_read() -> None:
    sent = {"fx_rate_to_usd": 1e-9, "rate": 1e-9, "rates": {"EUR": 1e-9}}
    request = {
        "action": {"amount": {"value": 1000, "currency": "EUR", **sent}, **sent},
        "evidence": sent,
        "context": sent,
        "amount_usd": 1,
        **sent,
    }

    assert amount_in_usd(request, {"EUR": 2}) == 2000
    assert amount_in_usd(request, {}) is UNUSABLE


@pytest.mark.parametrize("action", [5, "x", [], {"amount": 5}, {"amount": "20 USD"}])
def test_an_amount_in_a_broken_place_is_unusable(action: Any) -> None:
    assert amount_in_usd({"action": action}, {}) is UNUSABLE


@pytest.mark.parametrize("action", [None, {}, {"amount": None}, {"amount": {}}])
def test_no_amount_is_missing(action: Any) -> None:
    assert amount_in_usd({"action": action}, {}) is MISSING


def test_a_long_amount_is_read_in_linear_time() -> None:
    started = time.perf_counter()

    assert amount("1" * 200_000 + "x", "USD") is UNUSABLE
    assert time.perf_counter() - started < 5


def test_findings_come_from_guards_and_never_from_the_request() -> None:
    seen = Finding(code="RCE_RISK", surface=Surface.INPUT)

    assert build_facts({"findings": {"codes": ["FORGED"], "count": 9}, "a": 1}, [seen, seen]) == {
        "a": 1,
        "findings": {"codes": ["RCE_RISK"] * 2, "surfaces": ["input"] * 2, "count": 2},
    }
    assert build_facts({"findings": 5})["findings"] == {"codes": [], "surfaces": [], "count": 0}


@given(st.text() | st.floats() | st.integers() | st.none() | st.booleans(), st.text())
def test_an_amount_is_missing_unusable_or_not_negative(value: Any, currency: str) -> None:
    got = amount_in_usd(
        {"action": {"amount": {"value": value, "currency": currency or "USD"}}}, {"EUR": 2}
    )

    assert got is MISSING or got is UNUSABLE or 0 <= got < inf


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
        ("in", ["a", "a"], "a value appears twice in the list"),
        ("in", [1, 1.0], "a value appears twice in the list"),
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
def test_an_unsatisfiable_comparison_is_detected(ops: dict[str, Any]) -> None:
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
def test_a_satisfiable_comparison_passes(ops: dict[str, Any]) -> None:
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
def test_an_unusable_value_is_invalid_to_every_operator(
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
