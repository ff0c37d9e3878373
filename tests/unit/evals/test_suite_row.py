from typing import Any

import pytest

from demur.evals.suite_row import MAX_PROMPT_LENGTH, EvalRow, read_row

GOOD: dict[str, Any] = {"id": "a", "prompt": "Water the plants.", "label": "legitimate"}


def place(name: str | None) -> str:
    return f"at {name}" if name else "row"


def problems(**changes: Any) -> list[tuple[str | None, str, str | None]]:
    row, found = read_row({**GOOD, **changes}, place)
    assert row is None
    return [(problem.where, problem.problem, problem.help) for problem in found]


def test_three_fields_make_a_row() -> None:
    row, found = read_row(GOOD, place)

    assert found == []
    assert row == EvalRow(id="a", prompt="Water the plants.", label="legitimate")
    assert row is not None
    assert (row.language, row.pattern, row.twin) == ("en", None, None)


def test_every_field_is_read() -> None:
    full = {
        "category": "privacy",
        "pattern": "scope_expansion",
        "domain": "family",
        "language": "pt-BR",
        "twin": "b",
        "source": "own",
    }
    row, _ = read_row({**GOOD, **full}, place)

    assert row is not None
    assert {name: getattr(row, name) for name in full} == full


def test_pattern_and_twin_may_be_null() -> None:
    row, _ = read_row({**GOOD, "pattern": None, "twin": None}, place)

    assert row is not None


@pytest.mark.parametrize("name", ["id", "prompt", "label"])
def test_a_missing_column_is_named_where_the_row_is(name: str) -> None:
    fields = {key: value for key, value in GOOD.items() if key != name}
    _, [problem] = read_row(fields, place)

    assert problem.where == "row"
    assert problem.problem == f"the row has no `{name}`"
    assert problem.help


def test_a_column_with_almost_the_right_name_is_suggested() -> None:
    _, found = read_row({"id": "a", "promt": "x", "label": "harmful"}, place)

    assert [problem.help for problem in found] == [
        "did you mean `promt`, called `prompt` here?",
        "did you mean `prompt`?",
    ]


def test_an_unknown_field_that_resembles_none_lists_those_there_are() -> None:
    [(where, problem, help_text)] = problems(zzz="x")

    assert (where, problem) == ("at zzz", "unknown field `zzz`")
    assert help_text is not None
    assert help_text.startswith("a row has id, prompt, label")


@pytest.mark.parametrize(
    ("word", "meant"), [("safe", "legitimate"), ("Unsafe", "harmful"), ("1", "harmful")]
)
def test_a_label_in_other_words_is_translated_in_the_help(word: str, meant: str) -> None:
    assert problems(label=word) == [
        ("at label", f"unknown label `{word}`", f"write `{meant}`"),
    ]


def test_a_mistyped_label_is_suggested() -> None:
    assert problems(label="harmfull")[0][2] == "did you mean `harmful`?"


def test_an_unknown_label_says_what_labels_mean() -> None:
    assert "to be refused" in str(problems(label="maybe")[0][2])


@pytest.mark.parametrize("prompt", ["", "  \n\t"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    assert problems(prompt=prompt) == [("at prompt", "the prompt is empty", "write the request")]


def test_a_prompt_without_measure_is_refused() -> None:
    assert "200001 characters" in problems(prompt="x" * (MAX_PROMPT_LENGTH + 1))[0][1]


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 201])
def test_an_id_is_short_and_printable(name: str) -> None:
    assert problems(id=name)[0][1].endswith("is not a valid id")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("pattern", "keyword_trigering", "unknown pattern `keyword_trigering`"),
        ("pattern", "mood", "unknown pattern `mood`"),
        ("language", "English", "`English` is not a language tag"),
        ("category", "a\x00b", "`a\x00b` is too long or not printable"),
        ("domain", "x" * 201, f"`{'x' * 59}…` is too long or not printable"),
        ("label", 1, "`label` must be a string, not `1`"),
        ("category", None, "`category` must be a string, not `None`"),
        ("prompt", "caf\udce9", "`prompt` is not UTF-8 text"),
    ],
)
def test_an_invalid_field_is_reported(field: str, value: Any, problem: str) -> None:
    [(where, told, help_text)] = problems(**{field: value})

    assert (where, told) == (f"at {field}", problem)
    assert help_text
