import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.document import (
    ENTRY_FIELDS,
    FILE_FIELDS,
    RegistryDocument,
    RegistryFieldError,
    read_document,
    show_value,
)
from demur.codes.entry import Entry
from demur.codes.registry import CORE_PATH
from demur.codes.vocabulary import GrantKind, RefusalClass
from demur.errors import Problem, RegistryError

TextOf = Callable[..., str]


def problems_of(source: Path | str, text: str | None = None) -> tuple[Problem, ...]:
    with pytest.raises(RegistryError) as caught:
        read_document(source, text)
    return caught.value.problems


def test_a_file_and_its_text_are_read_alike(tmp_path: Path, acme_text: TextOf) -> None:
    text = acme_text({"code": "acme.com/KYC_EXPIRED", "http": 401}, phrases={"kyc!": "X"})
    path = tmp_path / "acme.json"
    path.write_text(text, encoding="utf-8")

    read = read_document(path)

    assert read == read_document(str(path), text)
    assert (read.version, read.domain, read.min_core) == ("1.0.0", "acme.com", None)
    assert read.phrases == {"kyc!": "X"}
    assert read.rows[0].code == "acme.com/KYC_EXPIRED"
    assert read.rows[0].fields["http"] == 401


def test_an_entry_knows_its_line() -> None:
    lines = CORE_PATH.read_text("utf-8").splitlines()

    for row in read_document(CORE_PATH).rows:
        path, line, code = row.where.rsplit(":", 2)
        assert path == str(CORE_PATH)
        assert code.strip() == row.code
        assert f'"code": "{row.code}"' in lines[int(line) - 1]


def test_two_entries_of_one_code_each_know_their_own_line(acme_text: TextOf) -> None:
    text = acme_text({"code": "acme.com/TWICE_SAID"}, {"code": "acme.com/TWICE_SAID"})
    first, second = read_document("a.json", text).rows

    lines = [n for n, line in enumerate(text.splitlines(), 1) if "TWICE_SAID" in line]
    assert [first.where, second.where] == [f"a.json:{n}: acme.com/TWICE_SAID" for n in lines]


def test_an_entry_whose_code_is_written_in_escapes_is_placed_without_a_line() -> None:
    text = (
        '{"schema_version": "reason_codes.v1", "version": "1.0.0", "codes": [{"code": "\\u0041B"}]}'
    )

    assert [row.where for row in read_document("a.json", text).rows] == ["a.json: AB"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.json"

    assert problems_of(path) == (
        Problem(str(path), "cannot read the registry: no such file or directory"),
    )


def test_a_folder_is_no_registry(tmp_path: Path) -> None:
    assert problems_of(tmp_path)[0].problem == "cannot read the registry: is a directory"


@pytest.mark.parametrize("path", ["a\0b.json", "\ud800.json"])
def test_a_path_that_no_file_can_have_is_an_error_like_any_other(path: str) -> None:
    assert problems_of(path)[0].problem.startswith("cannot read the registry: ")


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes('{"title": "gesperrt für"}'.encode("latin-1"))

    assert problems_of(path) == (Problem(str(path), "cannot read the registry: not UTF-8 text"),)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "a.json:1:1", "not JSON: expecting value"),
        ('{\n  "codes": [,]\n}', "a.json:2:13", "not JSON: expecting value"),
        ("[]", "a.json", "a registry is a JSON object"),
        ("[" * 100_000, "a.json", "not a registry: nested too deep"),
        (f"[{'9' * 5000}]", "a.json", "not a registry: a number has too many digits"),
    ],
    ids=["empty", "syntax", "list", "deep", "digits"],
)
def test_text_that_is_no_registry_is_refused_at_its_place(
    text: str, place: str, problem: str
) -> None:
    assert problems_of("a.json", text) == (Problem(place, problem),)


@pytest.mark.parametrize("version", ["reason_codes.v2", 1, None])
def test_another_schema_version_is_refused_before_anything_else(
    version: object, acme_text: TextOf
) -> None:
    problems = problems_of("a.json", acme_text(schema_version=version, colour="red"))

    shown = json.dumps(version)
    assert problems == (
        Problem(
            "a.json: schema_version",
            f"unknown schema version `{shown}`",
            "this reads `reason_codes.v1`",
        ),
    )


def test_a_duplicate_key_in_an_entry_is_refused_at_that_entry() -> None:
    text = '{"codes": [\n{"code": "AB",\n "title": "one", "title": "two"}]}'

    assert problems_of("a.json", text) == (
        Problem("a.json:2: AB", "the key `title` appears twice in one object"),
    )


def test_a_duplicate_key_outside_an_entry_is_refused_by_its_name() -> None:
    text = '{"version": "1.0.0", "version": "1.0.1"}'

    assert problems_of("a.json", text) == (
        Problem("a.json: version", "the key `version` appears twice in one object"),
    )


def test_an_unknown_field_of_the_file_gets_a_guess(acme_text: TextOf) -> None:
    assert problems_of("a.json", acme_text(frases={})) == (
        Problem("a.json: frases", "unknown field", "did you mean `phrases`?"),
    )


def test_an_unknown_field_of_an_entry_gets_a_guess(acme_text: TextOf) -> None:
    text = acme_text({"code": "acme.com/KYC_EXPIRED", "refusal_clas": "HARD_BLOCK", "zzz": 1})
    first, second = problems_of("a.json", text)

    assert (first.problem, first.help) == ("unknown field", "did you mean `refusal_class`?")
    assert (first.where or "").endswith(": acme.com/KYC_EXPIRED: refusal_clas")
    assert (second.problem, second.help) == ("unknown field", None)


@pytest.mark.parametrize(
    ("head", "place", "problem"),
    [
        ({"version": "one"}, "version", 'must be a version like `1.0.0`, not `"one"`'),
        ({"domain": 7}, "domain", "must be a non-empty string, not `7`"),
        ({"min_core": 1}, "min_core", "must be a version like `1.0.0`, not `1`"),
        ({"phrases": None}, "phrases", "must be an object, not `null`"),
    ],
)
def test_a_wrong_field_of_the_file_is_named(
    head: dict[str, Any], place: str, problem: str, acme_text: TextOf
) -> None:
    assert problems_of("a.json", acme_text(**head)) == (Problem(f"a.json: {place}", problem),)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("AB", 'must be an object, not `"AB"`'),
        ({}, "an entry needs a `code`"),
        ({"code": " "}, "an entry needs a `code`"),
        ({"code": 7}, "an entry needs a `code`"),
    ],
)
def test_an_entry_without_a_code_is_named_by_its_index(entry: object, problem: str) -> None:
    file = {"schema_version": "reason_codes.v1", "version": "1.0.0", "codes": [entry]}

    assert problems_of("a.json", json.dumps(file)) == (Problem("a.json: codes[0]", problem),)


def test_every_problem_of_a_file_is_reported_at_once(acme_text: TextOf) -> None:
    text = acme_text(
        {"code": "acme.com/ONE_REASON", "http": 1, "effect": "maybe"},
        {"code": "acme.com/OTHER_REASON", "grants": "quota"},
        {"code": 7},
        version="one",
        colour="red",
    )

    found = [(problem.where or "").rsplit(" ", 1)[-1] for problem in problems_of("a.json", text)]
    assert found == ["colour", "version", "http", "effect", "grants", "codes[2]"]


def test_a_mistyped_list_of_codes_is_reported_together_with_the_missing_one() -> None:
    text = '{"schema_version": "reason_codes.v1", "version": "1.0.0", "code": []}'

    assert problems_of("a.json", text) == (
        Problem("a.json: code", "unknown field", "did you mean `codes`?"),
        Problem("a.json: codes", "must be a list of entries, not `null`"),
    )


def test_a_file_without_phrases_has_none(acme: Callable[..., RegistryDocument]) -> None:
    assert acme().phrases == {}


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
