from typing import Any

import pytest

from demur.guards.tool_call.arguments import ArgumentPart
from demur.guards.tool_call.operator import (
    Operator,
    ArgumentHit,
    TrustedTargets,
    apply_operator,
    find_value_problem,
)


def sights(operator: Operator, seen: Any, value: Any = None, **trust: Any) -> list[ArgumentHit]:
    return list(apply_operator(operator, ArgumentPart("a", seen), value, TrustedTargets(**trust)))


@pytest.mark.parametrize(
    ("operator", "value", "hit", "miss"),
    [
        ("contains", "b", "abc", "xyz"),
        ("eq", 1, 1.0, True),
        ("ne", "a", "b", "a"),
        ("gt", 3, 4, 3),
        ("gte", 3, 3, 2),
        ("lt", 3, 2, 3),
        ("lte", 3, 3, 4),
        ("in", [1, "x"], "x", "y"),
        ("not_in", ["x"], "y", "x"),
        ("longer_than", 2, [1, 2, 3], "ab"),
        ("matches", r"^\d+$", "12", "1a"),
        ("starts_with", "ab", "abc", "cab"),
        ("host_not_in", ["example.com"], "https://example.org", "https://api.example.com"),
        ("metadata_address", None, "169.254.169.254", "10.0.0.1"),
        ("private_address", None, "http://10.0.0.1", "http://example.com"),
        ("outside_workspace", ["/w"], "/etc", "/w/a"),
        ("sweeping_sql", None, "delete from t", "select 1"),
    ],
)
def test_an_operator_sees_what_it_names(
    operator: Operator, value: Any, hit: Any, miss: Any
) -> None:
    assert len(sights(operator, hit, value)) == 1
    assert sights(operator, miss, value) == []


def test_being_there_can_be_enough() -> None:
    assert len(sights("present", None)) == 1


@pytest.mark.parametrize(
    ("operator", "value", "seen"),
    [("gt", 3, "5"), ("lt", 3, True), ("lte", 3, float("nan")), ("longer_than", 3, 7)],
)
def test_what_cannot_be_compared_does_not_pass(operator: Operator, value: Any, seen: Any) -> None:
    [sight] = sights(operator, seen, value)

    assert sight.evidence == {"unjudged": True}


def test_a_text_wrapped_in_a_list_is_seen() -> None:
    [sight] = sights("outside_workspace", [{"p": "../x"}, 7], ["/w"])

    assert sight.place == "a.0.p"


def test_the_workspace_of_the_config_is_the_default() -> None:
    assert len(sights("outside_workspace", "/etc", workspace=("/w",))) == 1
    assert sights("outside_workspace", "/etc") == []


def test_a_trusted_host_may_be_private() -> None:
    assert sights("private_address", "http://db.internal", hosts=("db.internal",)) == []


def test_the_span_marks_what_was_seen() -> None:
    [sight] = sights("matches", "\ud800 ab 12", "[0-9]+")

    assert sight.span is not None
    assert (sight.span.start, sight.span.end) == (5, 7)


def test_a_value_that_is_no_text_has_no_span() -> None:
    [sight] = sights("gt", 5, 3)

    assert sight.span is None


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        ("gt", "3"),
        ("gt", True),
        ("in", "abc"),
        ("contains", 1),
        ("starts_with", ""),
        ("matches", "(?=a)"),
        ("matches", "\ud800"),
        ("host_not_in", [1]),
        ("outside_workspace", "/w"),
    ],
)
def test_a_value_that_does_not_go_with_its_operator_is_a_problem(
    operator: Operator, value: Any
) -> None:
    assert find_value_problem(operator, value)


def test_operators_without_a_value_take_any() -> None:
    assert find_value_problem("present", None) is None
    assert find_value_problem("eq", object()) is None
