import pytest

from demur.respond.locales import is_locale, negotiate_locale, wider_locales

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
