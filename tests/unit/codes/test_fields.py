from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.entry import Entry
from demur.codes.fields import ENTRY_FIELDS, FILE_FIELDS, RegistryFieldError, show_value
from demur.codes.vocabulary import GrantKind, RefusalClass

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def read(field: str, value: object) -> Any:
    return {**FILE_FIELDS, **ENTRY_FIELDS}[field](value)


def problem_of(field: str, value: object) -> RegistryFieldError:
    with pytest.raises(RegistryFieldError) as caught:
        read(field, value)
    return caught.value


def test_every_field_of_an_entry_has_a_reader_in_the_same_order() -> None:
    assert tuple(ENTRY_FIELDS) == Entry._fields


@pytest.mark.parametrize(
    ("field", "value", "read_as"),
    [
        ("title", "A title", "A title"),
        ("refusal_class", "HARD_BLOCK", RefusalClass.HARD_BLOCK),
        ("refusal_class", None, None),
        ("decided", False, False),
        ("http", 403, 403),
        ("since", "10.0.2", "10.0.2"),
        ("deprecated_since", None, None),
        ("grants", ["quota"], (GrantKind.QUOTA,)),
        ("grants", [], ()),
        ("evidence", {"limit": "how many"}, {"limit": "how many"}),
        ("xref", {"atlas": ["AML.T0101"]}, {"atlas": ("AML.T0101",)}),
        ("examples", {"refuse": ["a"], "allow": ["b"]}, {"refuse": ("a",), "allow": ("b",)}),
        ("domain", None, None),
        ("phrases", {"go away": "RATE_LIMIT"}, {"go away": "RATE_LIMIT"}),
    ],
)
def test_a_sound_value_is_read(field: str, value: object, read_as: object) -> None:
    assert read(field, value) == read_as


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("title", 3, "must be a non-empty string, not `3`"),
        ("title", " ", 'must be a non-empty string, not `" "`'),
        ("parent", ["A"], 'must be a non-empty string, not `["A"]`'),
        ("description", "\ud800", "contains a lone surrogate, which no file can hold"),
        ("decided", 1, "must be true or false, not `1`"),
        ("deprecated", "no", 'must be true or false, not `"no"`'),
        ("http", True, "must be an HTTP status from 200 to 599, not `true`"),
        ("http", 199, "must be an HTTP status from 200 to 599, not `199`"),
        ("http", 600, "must be an HTTP status from 200 to 599, not `600`"),
        ("http", 403.0, "must be an HTTP status from 200 to 599, not `403.0`"),
        ("since", "1.0", 'must be a version like `1.0.0`, not `"1.0"`'),
        ("since", "1.0.01", 'must be a version like `1.0.0`, not `"1.0.01"`'),
        ("since", "1.0.0\n", 'must be a version like `1.0.0`, not `"1.0.0\\n"`'),
        ("since", "1٣.0.0", 'must be a version like `1.0.0`, not `"1٣.0.0"`'),
        ("since", 1, "must be a version like `1.0.0`, not `1`"),
        ("version", None, "must be a version like `1.0.0`, not `null`"),
        ("severity", "urgent", 'unknown value `"urgent"`'),
        ("severity", 3, "unknown value `3`"),
        ("grants", "quota", 'must be a list, not `"quota"`'),
        ("grants", ["quota", "quota"], "lists the same value twice"),
        ("surfaces", [[]], "unknown value `[]`"),
        ("evidence", [], "must be an object, not `[]`"),
        ("evidence", {"": "empty"}, 'must be a non-empty string, not `""`'),
        ("xref", {"atlas": "AML"}, 'must be a list, not `"AML"`'),
        ("examples", {"block": []}, "unknown kind of example `block`"),
        ("examples", {"refuse": ["a"], "allow": ["a"]}, '`"a"` is both to refuse and to allow'),
        ("phrases", {"go away": None}, "must be a non-empty string, not `null`"),
    ],
)
def test_an_unsound_value_is_refused_with_what_it_must_be(
    field: str, value: object, problem: str
) -> None:
    assert problem_of(field, value).problem == problem


def test_a_version_of_thousands_of_digits_is_refused_before_anyone_counts_with_it() -> None:
    assert problem_of("min_core", f"1.0.{'9' * 5000}").problem.startswith("must be a version")


def test_a_mistyped_word_gets_a_guess_and_a_strange_one_gets_the_list() -> None:
    assert problem_of("severity", "hihg").help == "did you mean `high`?"
    assert problem_of("severity", "urgent").help == "one of info, low, medium, high, critical"
    assert problem_of("severity", None).help == "one of info, low, medium, high, critical"


def test_a_long_value_is_cut_to_sixty_characters() -> None:
    assert show_value("x" * 58) == f'`"{"x" * 58}"`'
    assert show_value("x" * 59) == f'`"{"x" * 58}…`'


@given(st.sampled_from([*ENTRY_FIELDS, *FILE_FIELDS]), JSON)
def test_any_json_value_is_read_or_refused_and_nothing_else(field: str, value: object) -> None:
    with suppress(RegistryFieldError):
        read(field, value)
