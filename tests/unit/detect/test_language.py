import pytest

from demur.detect.language import guess_language

COMMON = {"the": ("en",), "and": ("en",), "der": ("de",), "und": ("de",), "in": ("de", "en")}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat and the dog", "en"),
        ("der hund und der rest", "de"),
        ("in in in", None),
        ("the und", None),
        ("lorem ipsum", None),
        ("the", "en"),
        ("", None),
        ("123", None),
        ("\u3053\u308c\u306f\u672c\u3067\u3059", "ja"),
        ("\u8fd9\u662f\u4e66", "zh"),
        ("\u044d\u0442\u043e the \u043a\u043d\u0438\u0433\u0430", "ru"),
        ("the caf\u00e9 and the bar", "en"),
    ],
)
def test_a_language_is_told_by_script_or_by_its_words(text: str, language: str | None) -> None:
    assert guess_language(text, COMMON) == language
