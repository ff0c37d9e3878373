from pathlib import Path

import pytest

from demur.respond.lint_marks import (
    FailingRow,
    MarksError,
    builtin_locales,
    builtin_marks,
    failing_rows,
    guess_locale,
    load_marks,
    parse_marks,
)
from demur.text.prose import prepare_text

HEAD = "schema_version: refusal_marks.v1\nlocale: xx\n"
MARK = "{id: a, means: boundary, pattern: nope, hit: ['nope'], miss: ['yes']}"
ALL = [*builtin_locales(), "any"]


def problems(text: str) -> list[str]:
    with pytest.raises(MarksError) as caught:
        parse_marks(text, "m.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_there_are_marks_for_each_language_of_the_templates() -> None:
    assert builtin_locales() == ("de", "en", "es", "fr", "ja")


@pytest.mark.parametrize("locale", ALL)
def test_each_mark_holds_to_its_own_rows(locale: str) -> None:
    marks = builtin_marks(locale)

    assert marks is not None
    assert [(row.mark, row.kind, row.row) for row in failing_rows(marks)] == []


@pytest.mark.parametrize("locale", builtin_locales())
def test_each_language_has_marks_for_every_part_and_fault_that_words_show(locale: str) -> None:
    marks = builtin_marks(locale)

    assert marks is not None
    assert {mark.means for mark in marks.marks} == {
        *("acknowledgment", "boundary", "reason", "alternatives", "engagement"),
        *("moralising", "assumed-intent", "robotic-tone", "vague-boundary", "over-apology"),
        *("generic-alternatives", "bypass-hint", "leaked-policy", "apology", "resource"),
        *("vacuous-reason", "moral"),
    }


@pytest.mark.parametrize("locale", ["xx", "../en", "", "EN"])
def test_a_language_without_marks_has_none(locale: str) -> None:
    assert builtin_marks(locale) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "not YAML"),
        ("[]", "a file of marks is a mapping"),
        ("locale: xx\nmarks: []", "`schema_version` is missing"),
        ("schema_version: v9\nlocale: xx\nmarks: []", "unknown schema version `v9`"),
        ("schema_version: refusal_marks.v1\nlocale: X\nmarks: []", "`X` is no language"),
        (HEAD, "`marks` is missing"),
        (HEAD + "marks: 3", "`marks` is a list"),
        (HEAD + "marks: []\nextra: 1", "unknown key `extra`"),
        (HEAD + "marks: [3]", "a mark is a mapping"),
        (HEAD + f"marks: [{MARK}, {MARK}]", "mark `a` appears twice"),
        (HEAD + f"marks: [{MARK.replace('boundary', 'boundry')}]", "unknown meaning `boundry`"),
        (HEAD + f"marks: [{MARK.replace('pattern: nope', 'pattern: (')}]", "not a usable pattern"),
        (HEAD + f"marks: [{MARK.replace('n: nope', 'n: <x>')}]", "unknown phrase `<x>`"),
        (HEAD + f"marks: [{MARK.replace('pattern: nope', 'pattern: 3')}]", "a pattern is a text"),
        (HEAD + f"marks: [{MARK.replace('id: a, ', '')}]", "`id` is missing"),
        (HEAD + f"marks: [{MARK.replace('id: a', 'id: 3')}]", "`id` must be a text"),
        (
            HEAD + f"marks: [{MARK.replace('id: a', 'weak: 1, id: a')}]",
            "`weak` must be true or false, not `1`",
        ),
        (HEAD + "marks: [{id: a, means: boundary, pattern: x}]", "the mark has no `hit`"),
        (HEAD + "words: [3]\nmarks: []", "`words` holds texts"),
        (HEAD + "names: 3\nmarks: []", "`names` is a mapping"),
    ],
)
def test_a_wrong_file_says_where_and_what(text: str, problem: str) -> None:
    found = problems(text)

    assert any(problem in one for one in found), found
    assert all(one.startswith("m.yaml") for one in found)


def test_phrases_stand_in_for_expressions_and_blanks_for_white_space() -> None:
    text = (
        HEAD + "phrases: {nay: nope|nah, twice: <nay> <nay>}\n"
        "marks: [{id: a, means: boundary, pattern: '<twice>', hit: ['Nah    nope'], miss: [nah]}]"
    )

    assert list(failing_rows(parse_marks(text))) == []


def test_a_file_of_ones_own_is_held_to_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "xx.yaml"
    path.write_text(HEAD + f"marks: [{MARK}]")
    assert load_marks(path).locale == "xx"

    path.write_text(HEAD + f"marks: [{MARK.replace('yes', 'oh nope')}]")
    with pytest.raises(MarksError, match="does not hold to its miss row `oh nope`"):
        load_marks(str(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MarksError, match="cannot read the marks: no such file"):
        load_marks(tmp_path / "none.yaml")


TEXT = r"""
schema_version: refusal_marks.v1
locale: xx
marks:
  - id: nay
    means: boundary
    {more}
    pattern: \bnay\b
    hit: [nay]
    miss: [nays]
"""


@pytest.mark.parametrize(
    ("more", "text", "places"),
    [
        ("", "Nay. Or nay?", [(0, 3), (8, 11)]),
        ("opens: true", "Nay. Or nay?", [(0, 3)]),
        ("unless: or nay", "Nay. Or nay? Nay!", [(0, 3), (13, 16)]),
        ("unless: nay nay", "nay nay nay", [(8, 11)]),
    ],
)
def test_a_mark_knows_its_places(more: str, text: str, places: list[tuple[int, int]]) -> None:
    [mark] = parse_marks(TEXT.replace("{more}", more)).marks

    assert list(mark.find_places(prepare_text(text))) == places


def test_a_row_that_turns_out_otherwise_is_named() -> None:
    marks = parse_marks(TEXT.replace("{more}", "unless: ^nay"))

    assert list(failing_rows(marks)) == [FailingRow("nay", "marks:5:5", "nay", "hit")]


@pytest.mark.parametrize(
    ("text", "locale"),
    [
        ("I can't help with that, because it is hers.", "en"),
        ("ERROR: Access refused.", "en"),
        ("Ich kann dabei leider nicht helfen.", "de"),
        ("Anfrage abgelehnt", "de"),
        ("No puedo ayudarte con eso, lo siento.", "es"),
        ("Je ne peux pas vous aider avec cela.", "fr"),
        ("申し訳ありませんが、できません。", "ja"),
        ("README の場所をご案内できます。", "ja"),
        ("I can't translate the word の for you, because it is a particle.", "en"),
        ("Mi dispiace, ma non posso aiutarti con questo.", None),
        ("Desculpe, não posso ajudar com isso.", None),
        ("Het spijt me, ik kan je niet helpen met dit.", None),
        ("Przepraszam, nie mogę w tym pomóc.", None),
        ("抱歉。我无法提供帮助。", None),
        ("Извините, я не могу помочь.", None),
        ("ขออภัย ฉันช่วยไม่ได้", None),
        ("", None),
        ("42", None),
        ("xyzzy", None),
    ],
)
def test_the_language_is_guessed_or_not_known(text: str, locale: str | None) -> None:
    assert guess_locale(text) == locale


def test_marks_of_ones_own_bring_their_language() -> None:
    italian = parse_marks(
        "schema_version: refusal_marks.v1\nlocale: it\nwords: [mi, dispiace, ma, non]\nmarks: []"
    )

    assert guess_locale("Mi dispiace, ma non posso.", [italian]) == "it"
