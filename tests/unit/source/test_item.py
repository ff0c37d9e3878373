"""What an item gives to whoever reads it, and what it reports where it is something else."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import InputError, PolicyError
from demur.source.item import SourceItem, closest_name, did_you_mean
from demur.source.reading import read_source


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


def read(text: str) -> SourceItem:
    return read_source("d", text)


def told(item: SourceItem) -> list[str]:
    return [" | ".join(filter(None, problem)) for problem in item.problems]


def test_all_items_of_a_document_report_to_one_list() -> None:
    item = read("a: {b: [1]}")
    item.report("whole", "help")
    item.value["a"].report_key("b", "key")
    item.value["a"].value["b"].value[0].report("one")

    assert told(item) == ["d:1:1 | whole | help", "d:1:5 | key", "d:1:9 | one"]
    with pytest.raises(PolicyError) as caught:
        item.value["a"].raise_problems(PolicyError)
    assert caught.value.problems == tuple(item.problems)


def test_without_a_problem_nothing_is_raised() -> None:
    item = read("a: 1")
    item.raise_problems(PolicyError)

    assert item.plain_value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "number", "whole"),
    [("5", 5, 5), ("0.5", 0.5, None), ("true", None, None), ("x", None, None), ("[]", None, None)],
)
def test_true_and_false_are_no_numbers(text: str, number: float | None, whole: int | None) -> None:
    assert (read(text).number, read(text).integer) == (number, whole)


@pytest.mark.parametrize(("text", "is_text"), [("x", True), ("' '", False), ("5", False)])
def test_a_text_says_something(text: str, is_text: bool) -> None:
    assert read(text).is_text is is_text


# What each question gives, and what it reports: (document, question, answer, problems).
QUESTIONS: list[tuple[str, Callable[[SourceItem], Any], Any, list[str]]] = [
    ("{a: x}", lambda item: item.require_text("a"), "x", []),
    ("{a: 5}", lambda item: item.require_text("a"), "", ["d:1:5 | `a` must be a text | quote it"]),
    ("{}", lambda item: item.require_text("a"), "", ["d:1:1 | `a` is missing"]),
    ("[]", lambda item: item.require_text("a"), "", ["d:1:1 | `a` is missing"]),
    ("{a: x}", lambda item: item.optional_text("a"), "x", []),
    ("{}", lambda item: item.optional_text("a"), None, []),
    (
        "{a: ''}",
        lambda item: item.optional_text("a"),
        "",
        ["d:1:5 | `a` must be a text | quote it"],
    ),
    (
        "{}",
        lambda item: item.require_item("a", "add it"),
        None,
        ["d:1:1 | `a` is missing | add it"],
    ),
    ("{a: true}", lambda item: item.read_flag("a"), True, []),
    ("{a: false}", lambda item: item.read_flag("a"), False, []),
    ("{}", lambda item: item.read_flag("a"), False, []),
    (
        "{a: 1}",
        lambda item: item.read_flag("a"),
        False,
        ["d:1:5 | `a` must be true or false, not `1`"],
    ),
    ("{a: red}", lambda item: item.require_word("a", Colour), Colour.RED, []),
    ("{a: red}", lambda item: item.require_word("a", ("red",)), "red", []),
    (
        "{}",
        lambda item: item.require_word("a", Colour),
        None,
        ["d:1:1 | `a` is missing | one of red, green"],
    ),
    (
        "{a: rad}",
        lambda item: item.require_word("a", ("read", "green")),
        None,
        ["d:1:5 | unknown a `rad` | did you mean `read`?"],
    ),
    (
        "{a: [1]}",
        lambda item: item.require_word("a", Colour),
        None,
        ["d:1:5 | unknown a `[1]` | one of red, green"],
    ),
    ("{a: green}", lambda item: item.word_or_default("a", Colour.RED), Colour.GREEN, []),
    ("{}", lambda item: item.word_or_default("a", Colour.RED), Colour.RED, []),
    (
        "{a: x}",
        lambda item: item.word_or_default("a", Colour.RED),
        Colour.RED,
        ["d:1:5 | unknown a `x` | one of red, green"],
    ),
    ("{a: 1}", lambda item: [*item.as_mapping("a box")], ["a"], []),
    ("[]", lambda item: [*item.as_mapping("a box")], [], ["d:1:1 | a box is a mapping"]),
    (
        "{ab: 1, id: 2}",
        lambda item: [*item.as_fields(("id",), "a box")],
        ["ab", "id"],
        ["d:1:2 | unknown key `ab` | a box has id"],
    ),
    (
        "{colours: 1}",
        lambda item: [*item.as_fields(("colour",), "a box")],
        ["colours"],
        ["d:1:2 | unknown key `colours` | did you mean `colour`?"],
    ),
    ("5", lambda item: [*item.as_fields(("id",), "a box")], [], ["d:1:1 | a box is a mapping"]),
    ("{a: {b: 1}}", lambda item: [*item.read_entries("a")], ["b"], []),
    ("{a: 1}", lambda item: [*item.read_entries("a")], [], ["d:1:5 | `a` is a mapping"]),
    ("{}", lambda item: [*item.read_entries("a")], [], []),
    (
        "{a: {b: x, c: 1}}",
        lambda item: dict(item.read_pairs("a")),
        {"b": "x"},
        ["d:1:15 | `c` must be a text | quote it"],
    ),
    (
        "{a: [x, 1, x]}",
        lambda item: [text.value for text in item.list_texts("a")],
        ["x", "x"],
        ["d:1:9 | `a` holds texts | quote it"],
    ),
    ("{a: x}", lambda item: [*item.list_texts("a")], [], ["d:1:5 | `a` is a list"]),
    ("{}", lambda item: item.list_items("a"), [], []),
    (
        "{a: [x, y, x]}",
        lambda item: [text.value for text in item.distinct_texts("a")],
        ["x", "y"],
        ["d:1:12 | `x` appears twice in `a`"],
    ),
    ("{schema_version: box.v1}", lambda item: item.check_version("box.v1"), None, []),
    (
        "{schema_version: box.v2}",
        lambda item: item.check_version("box.v1"),
        None,
        ["d:1:18 | unknown schema version `box.v2` | this is box.v1"],
    ),
    (
        "{}",
        lambda item: item.check_version("box.v1"),
        None,
        ["d:1:1 | `schema_version` is missing"],
    ),
]


@pytest.mark.parametrize(("text", "ask", "answer", "problems"), QUESTIONS)
def test_each_question_has_its_answer_and_its_problems(
    text: str, ask: Callable[[SourceItem], Any], answer: Any, problems: list[str]
) -> None:
    item = read(text)

    assert ask(item) == answer
    assert told(item) == problems


def test_a_blank_text_is_one_where_it_may_be() -> None:
    item = read("{a: ['', x, 1]}")

    assert [text.value for text in item.list_texts("a", allow_blank=True)] == ["", "x"]
    assert told(item) == ["d:1:13 | `a` holds texts | quote it"]


def test_a_failed_lookup_is_reported_with_the_message_of_the_lookup() -> None:
    item = read("[a, b]")

    def find(value: str) -> int:
        if value == "a":
            return 1
        raise InputError(f"no `{value}`", help="try `a`")

    assert [one.look_up(find) for one in item.value] == [1, None]
    assert told(item) == ["d:1:5 | no `b` | try `a`"]


def test_a_duplicate_name_is_reported_with_its_first_location() -> None:
    item = read("[a, b, a, '', '']")
    seen: dict[str, str] = {}
    for one in item.value:
        one.report_duplicate(one.value, "box", seen)

    assert told(item) == ["d:1:8 | box `a` appears twice | also at d:1:2"]


KNOWN = ("RATE_LIMIT", "RCE_RISK", "DESTRUCTIVE_ACTION", "acme.com/KYC_EXPIRED")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("DESTRUCTIVE_ACTON", "DESTRUCTIVE_ACTION"),
        ("rce_risk", "RCE_RISK"),
        ("rate-limit", "RATE_LIMIT"),
        (" Rate Limit ", "RATE_LIMIT"),
        ("acme.com/KYC_EXPIRD", "acme.com/KYC_EXPIRED"),
    ],
)
def test_a_mistyped_name_is_recognised(typed: str, meant: str) -> None:
    assert closest_name(typed, KNOWN) == meant
    assert did_you_mean(typed, KNOWN) == f"did you mean `{meant}`?"


@pytest.mark.parametrize("typed", ["", "BANANA", "RCE_RISK" * 20])
def test_a_name_that_is_near_to_none_gets_no_guess(typed: str) -> None:
    assert closest_name(typed, KNOWN) is None
    assert did_you_mean(typed, KNOWN) is None


def test_a_long_text_is_no_typing_mistake() -> None:
    assert closest_name("A" * 100, ["A" * 101]) == "A" * 101
    assert closest_name("A" * 101, ["A" * 101]) is None


def test_without_known_names_there_is_no_guess() -> None:
    assert closest_name("RCE_RISK", ()) is None


@given(st.text(st.characters(exclude_categories=())))
def test_a_guess_is_always_a_known_name(typed: str) -> None:
    assert closest_name(typed, KNOWN) in {None, *KNOWN}
