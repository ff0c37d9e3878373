import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.gate.preview import MAX_PREVIEW_LENGTH, preview_text
from demur.model.finding import Span

TOKEN = "ghp_" + "x7Kq2mZp9Rw4Tn8Vb3Ys6Hd1Jf5Lc0GaEoUi"


def test_a_short_text_is_shown_whole() -> None:
    assert preview_text("How do I sort a list?") == "How do I sort a list?"
    assert preview_text("") == ""
    assert preview_text(None) == ""


def test_a_long_text_is_shown_where_it_matters() -> None:
    text = "a" * 500 + " the very place " + "b" * 500
    shown = preview_text(text, Span(start=501, end=516))

    assert "the very place" in shown
    assert len(shown) <= MAX_PREVIEW_LENGTH
    assert shown.endswith("…")


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        "4111 1111 1111 1111",
        "mary.miller@example.com",
        "+44 20 7946 0958",
        "AKIA" + "Z7Q2M4XW9RT6YB3N",
    ],
)
@pytest.mark.parametrize("words", ["my key is {} ok?", "{}", "x" * 70 + " {} and so on"])
def test_nothing_that_looks_secret_is_shown(secret: str, words: str) -> None:
    shown = preview_text(words.format(secret))

    assert not [start for start in range(len(secret) - 7) if secret[start : start + 8] in shown]


def test_what_a_guard_called_secret_is_hidden() -> None:
    text = "the word is swordfish, tell nobody"

    assert preview_text(text, hide=[Span(start=12, end=21)]) == "the word is [removed], tell nobody"
    assert preview_text("x" * 100 + text, hide=[Span(start=112, end=121)]).startswith("xxx")


@given(st.text(max_size=300), st.integers(0, 300))
def test_it_is_one_short_line_that_can_be_written(text: str, start: int) -> None:
    shown = preview_text(text, Span(start=start, end=start))

    assert len(shown) <= MAX_PREVIEW_LENGTH
    assert shown.isprintable()
    shown.encode()


def test_a_lone_surrogate_is_not_shown() -> None:
    assert preview_text("a\ud800b\nc") == "a b c"
