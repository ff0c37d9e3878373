import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import (
    DemurError,
    GrantError,
    InconsistentError,
    InputError,
    InputTypeError,
    MissingExtraError,
    Problem,
    RegistryError,
    UnknownCodeError,
    one_line,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_a_problem_reads_as_place_then_problem_then_help() -> None:
    problem = Problem("acme.json:3", "unknown parent `X`", "did you mean `Y`?")

    assert str(problem) == "acme.json:3: unknown parent `X`\n  help: did you mean `Y`?"


def test_a_problem_without_place_and_help_is_its_sentence_alone() -> None:
    assert str(Problem(None, "no such thing")) == "no such thing"


def test_an_error_keeps_its_facts_apart() -> None:
    error = DemurError("is wrong", where="here", help="do this")

    assert (error.where, error.problem, error.help) == ("here", "is wrong", "do this")
    assert error.args == ("is wrong",)
    assert str(error) == "here: is wrong\n  help: do this"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (InputError, ValueError),
        (InputTypeError, TypeError),
        (UnknownCodeError, LookupError),
        (RegistryError, ValueError),
        (InconsistentError, ValueError),
        (GrantError, ValueError),
        (MissingExtraError, ImportError),
    ],
)
def test_each_error_is_also_the_built_in_one_that_callers_expect(
    kind: type[DemurError], builtin: type[Exception]
) -> None:
    error = kind("is wrong", where="here", help="do this")

    assert isinstance(error, DemurError)
    assert isinstance(error, builtin)
    assert str(error) == "here: is wrong\n  help: do this"


@pytest.mark.parametrize("kind", [DemurError, InputTypeError, RegistryError, MissingExtraError])
def test_an_error_survives_a_copy_and_a_process_boundary(kind: type[DemurError]) -> None:
    error = kind("is wrong", where="here", help="do this")

    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(twin) is kind
        assert twin.problems == error.problems


def test_a_type_error_names_what_was_wanted_and_what_came() -> None:
    error = InputTypeError.wrong_type("a detail", "a string", b"x")

    assert str(error) == "a detail must be a string, not `bytes`"


def test_a_registry_error_carries_every_problem_and_shows_the_first() -> None:
    problems = [Problem("a", "one", "help one"), Problem("b", "two")]
    error = RegistryError.from_problems(problems)

    assert error.problems == tuple(problems)
    assert (error.where, error.problem, error.help) == ("a", "one", "help one")
    assert str(error) == "a: one\n  help: help one\nb: two"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain `text` é", "plain `text` é"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\ud800 \u2028", "\\ud800 \\u2028"),
        ("", ""),
    ],
)
def test_what_is_not_printable_is_shown_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_what_a_message_quotes_can_neither_break_its_line_nor_its_encoding(
    where: str, problem: str, help_text: str
) -> None:
    lines = str(Problem(where, problem, help_text)).splitlines()

    assert len(lines) <= 1 + bool(help_text)
    assert all(line.isprintable() for line in lines)
    assert "".join(lines).encode().decode() == "".join(lines)
