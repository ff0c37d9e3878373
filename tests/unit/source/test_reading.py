"""What plain YAML is, and the place and help of everything else."""

from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import ManyProblemsError
from demur.source import reading
from demur.source.reading import SourceError, read_source, read_text

READERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


@pytest.fixture(params=READERS, autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with the fast reader of YAML and with the one that stands in for it."""
    monkeypatch.setattr(reading, "YAML_LOADER", request.param)


def plain(text: str) -> Any:
    return read_source("p.yaml", text).plain_value


def problems(text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        read_source("p.yaml", text)
    return [str(problem) for problem in caught.value.problems]


def test_values_know_their_place_and_mappings_that_of_their_keys() -> None:
    item = read_source("p.yaml", "a: 1\nb:\n  - x\n  - c: y\n")

    assert item.where == "p.yaml:1:1"
    assert item.keys == {"a": "p.yaml:1:1", "b": "p.yaml:2:1"}
    assert item.value["a"].where == "p.yaml:1:4"
    assert item.value["b"].value[0].where == "p.yaml:3:5"
    assert item.value["b"].value[1].value["c"].where == "p.yaml:4:8"
    assert item.plain_value == {"a": 1, "b": ["x", {"c": "y"}]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x", "x"),
        ("'5'", "5"),
        ("'no'", "no"),
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("0", 0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1.5e+3", 1500.0),
        ("1e3", "1e3"),
        ("0o17", "0o17"),
        ("9007199254740991", 2**53 - 1),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("[]", []),
        ("{}", {}),
        ("{no: 1, 5: 2, ~: 3}", {"no": 1, "5": 2, "~": 3}),
        ("!!str 5", "5"),
        ("# comment\nx", "x"),
        ("\ufeffx", "x"),
        ("--- x", "x"),
    ],
)
def test_plain_values_are_what_they_look_like(text: str, value: Any) -> None:
    got = plain(text)

    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("no", "false"),
        ("No", "false"),
        ("off", "false"),
        ("FALSE", "false"),
        ("yes", "true"),
        ("on", "true"),
        ("True", "true"),
    ],
)
def test_words_that_yaml_takes_for_booleans_are_refused(word: str, meant: str) -> None:
    assert problems(f"a: {word}") == [
        f'p.yaml:1:4: `{word}` is read as {meant}\n  help: write "{word}" or {meant}'
    ]


@pytest.mark.parametrize(
    "number",
    [
        *("017", "0x1F", "0b11", "1_000", "1_0.5", "12:30", "190:20:30.5", "00", "-01"),
        *(".inf", "-.inf", ".nan", "!!float nan", "!!float inf", "!!int 1.5", "!!int x"),
        "9" * 5000,
    ],
)
def test_numbers_that_readers_disagree_on_are_refused(number: str) -> None:
    text = number.removeprefix("!!float ").removeprefix("!!int ")
    assert problems(f"a: {number}") == [
        f"p.yaml:1:4: `{text}` is no plain number\n  help: write it in decimal, or quote it"
    ]


@pytest.mark.parametrize("number", ["9007199254740992", "-9007199254740992", "1.0e+400"])
def test_numbers_without_an_exact_form_are_refused(number: str) -> None:
    assert problems(f"a: {number}") == [
        f"p.yaml:1:4: `{number}` is too large a number\n  help: quote it if it is a text"
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: 2026-11-15", "1:4: `2026-11-15` is read as timestamp\n  help: quote it"),
        ("a: =", "1:4: `=` is read as value\n  help: quote it"),
        ("a: !!binary aGk=", "1:4: `aGk=` is read as binary\n  help: quote it"),
        ("a: !secret x", "1:4: `x` is read as !secret\n  help: quote it"),
        (
            "a: !!set {b}",
            "1:4: the tag `tag:yaml.org,2002:set` is not used here\n  help: leave it out",
        ),
        ("a: !own [b]", "1:4: the tag `!own` is not used here\n  help: leave it out"),
        ("a: 1\na: 2", "2:1: the key `a` appears twice\n  help: first at p.yaml:1:1"),
        ("a: {b: 1, b: 1}", "1:11: the key `b` appears twice\n  help: first at p.yaml:1:5"),
        ("? [a]\n: 1", "1:3: a key must be a plain word"),
        ("{a: 1}: 1", "1:1: a key must be a plain word"),
        ("<<: {a: 1}", "1:1: a key must be a plain word"),
        (
            "a: &x 1",
            "1:4: YAML anchors and aliases are not used here\n  help: write it out",
        ),
    ],
)
def test_ambiguous_yaml_is_refused(text: str, want: str) -> None:
    assert problems(text) == [f"p.yaml:{want}"]


def test_an_alias_is_refused_at_its_location() -> None:
    words = "YAML anchors and aliases are not used here\n  help: write it out"

    assert problems("a: &x [1]\nb: *x\n*x : 1\n") == [
        f"p.yaml:1:4: {words}",
        f"p.yaml:2:4: {words}",
        f"p.yaml:3:1: {words}",
    ]


def test_aliases_are_not_followed() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    text = "\n".join(["a0: &a0 x", *levels])

    assert len(problems(text)) == 30 + 29 * 9
    assert len(problems("a: &a [*a]")) == 2


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("\ta: 1", "p.yaml:1:1: not YAML: found character"),
        ("a:\n\t- b", "p.yaml:2:1: not YAML: found character"),
        ("a: [1", "p.yaml:"),
        ("a: 'x", "p.yaml:"),
        ("a: b: c", "p.yaml:1:5: not YAML: mapping values are not allowed"),
        ("a\n---\nb", "p.yaml:2:1: not YAML: but found another document"),
        ("a: *b", "p.yaml:1:4: YAML anchors"),
        ("a: \x00", "p.yaml: not YAML: "),
        ("a: \x07", "p.yaml: not YAML: "),
        ("!<tag:x", "p.yaml:1:"),
    ],
)
def test_invalid_yaml_is_reported_with_its_location(text: str, start: str) -> None:
    [problem] = problems(text)

    assert problem.startswith(start)
    assert "not YAML: " in problem or "anchors" in problem
    assert "\n" not in problem.partition("\n  help: ")[0]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n...\n# x"])
def test_an_empty_file_says_so(text: str) -> None:
    expected = "p.yaml: the file is empty"
    if text.startswith("---"):  # a document that holds null
        assert plain(text) is None
    else:
        assert problems(text) == [expected]


@pytest.mark.parametrize("opened", ["[", "{a: ", "- ", "? "])
def test_however_deep_it_is_it_ends_with_a_place(opened: str) -> None:
    [problem] = problems(opened * 100_000)

    assert problem == f"p.yaml:1:{50 * len(opened) + 1}: nested too deep"


def test_fifty_levels_are_read() -> None:
    assert plain("[" * 50 + "]" * 50) is not None
    assert problems("[" * 51 + "]" * 51) == ["p.yaml:1:51: nested too deep"]


def test_every_problem_is_reported() -> None:
    found = problems("a: no\nb: 017\nc: {d: 1, d: 2}\ne: [2026-01-01, ok]\n")

    assert [problem.partition(": ")[0] for problem in found] == [
        "p.yaml:1:4",
        "p.yaml:2:4",
        "p.yaml:3:11",
        "p.yaml:4:5",
    ]


class OwnError(ManyProblemsError):
    pass


@pytest.mark.parametrize("text", ["", "a: [", "a: \x00", "a: &x 1", "a: no"])
def test_problems_are_raised_as_the_error_class_of_the_reader(text: str) -> None:
    with pytest.raises(OwnError, match=r"p\.yaml"):
        read_source("p.yaml", text, OwnError)


def test_a_file_is_read_from_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("é", encoding="utf-8")

    assert read_text(path, "policy") == read_text(str(path), "policy") == "é"
    assert "schema_version" in read_text(files("demur.policy") / "agent_policy.yaml", "policy")


def test_a_file_that_cannot_be_read_says_what_it_would_have_been(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with pytest.raises(SourceError, match="cannot read the policy: no such file or directory"):
        read_text(path, "policy")
    path.write_bytes(b"\xff")
    with pytest.raises(OwnError, match="cannot read the table: not UTF-8 text"):
        read_text(path, "table", OwnError)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@#?,\\ \n\t0123.e+_\ud800\x00é", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SourceError):
        assert read_source("p.yaml", text).where
