import pytest

from demur.respond.template import find_text_problem, is_locale, negotiate_locale, wider_locales

HAVE = ("en", "de", "pt-BR", "zh-Hant")


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("de-AT", "de"),
        ("de_AT.UTF-8", "de"),
        ("DE", "de"),
        ("sr_RS@latin", "en"),
        ("pt-br", "pt-BR"),
        ("pt", "en"),
        ("zh-Hant-TW", "zh-Hant"),
        ("fr", "en"),
        ("", "en"),
        (None, "en"),
        ("../../etc", "en"),
        ("C.UTF-8", "en"),
        ("x" * 1000, "en"),
    ],
)
def test_the_nearest_language_there_is(asked: str | None, got: str) -> None:
    assert negotiate_locale(asked, HAVE) == got


def test_wider_locales_come_nearest_first() -> None:
    assert list(wider_locales("zh-Hant-TW")) == ["zh-Hant-TW", "zh-Hant", "zh"]


@pytest.mark.parametrize(
    ("text", "is_one"), [("de", True), ("pt-BR", True), ("d", False), ("de_AT", False)]
)
def test_how_a_locale_is_written(text: str, is_one: bool) -> None:
    assert is_locale(text) is is_one


@pytest.mark.parametrize(
    ("part", "text", "problem"),
    [
        ("acknowledgment", "I see", "a whole sentence"),
        ("how_to_proceed", "Wait", "a whole sentence"),
        ("engagement", "Tell me.", "asks nothing"),
        ("boundary", "I can't. Really", "the end of a sentence"),
        ("reason", "it is so.", "the end of a sentence"),
        ("alternatives", "list them!", "the end of a sentence"),
        ("reason", "x" * 241, "one line of at most 240"),
        ("reason", "a\nb", "one line"),
        ("reason", " a", "begins or ends with a space"),
    ],
)
def test_a_part_of_the_wrong_form_is_reported(part: str, text: str, problem: str) -> None:
    found = find_text_problem(part, text)

    assert found is not None
    assert problem in found.problem


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("acknowledgment", "I see. I do."),
        ("engagement", "Shall I?"),
        ("engagement", "始めましょうか\N{FULLWIDTH QUESTION MARK}"),
        ("boundary", "I can't run it"),
        ("alternatives", "list them"),
    ],
)
def test_a_part_of_the_right_form_passes(part: str, text: str) -> None:
    assert find_text_problem(part, text) is None
