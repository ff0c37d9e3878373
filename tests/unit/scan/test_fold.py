# ruff: noqa: RUF001 - letters that look like others are what is tested

import pytest

from demur.scan.fold import fold

CYRILLIC = "Съешь же ещё этих мягких французских булок, да выпей чаю"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("Ignore  ALL\n\n\trules", b"ignore all rules"),
        ("ig\x00nore", b"ignore"),
        ("ΙGΝΟRΕ", b"ignore"),
        ("Ignоre аll", b"ignore all"),
        ("i\u200bg\u00adn\u2060ore \u200b all", b"ignore all"),
        ("ｉｇｎｏｒｅ　ａｌｌ", b"ignore all"),
        ("“café” — ok", b'"cafe" - ok'),
        ("", b""),
        (" \u00a0 ", b" "),
    ],
)
def test_spellings_of_one_text_fold_alike(text: str, data: bytes) -> None:
    assert fold(text).data == data


def test_many_different_letters_fold_like_few() -> None:
    one_by_one = b"".join(fold(letter).data for letter in CYRILLIC)

    assert fold(CYRILLIC).data == one_by_one


def test_greek_capitals_keep_their_case_among_greek_letters() -> None:
    assert fold("ΝΗΜΑ").data == fold("νημα").data


def test_a_span_maps_back_over_what_was_folded_away() -> None:
    text = "x \u200b  IG\u00adNORE\n\n all"
    folded = fold(text)
    start = folded.data.index(b"ignore")
    first, last = folded.span(start, start + 6)

    assert text[first:last] == "IG\u00adNORE"


def test_a_letter_written_with_several_bytes_maps_to_itself() -> None:
    text = "да жук ß"
    folded = fold(text)
    start = folded.data.index(fold("ж").data)

    assert folded.span(start + 1, start + 2) == (3, 4)
    assert folded.span(len(folded.data) - 1, len(folded.data)) == (7, 8)


def test_an_empty_span_and_the_end_have_their_places() -> None:
    folded = fold("a  b")

    assert folded.span(2, 2) == (3, 3)
    assert folded.span(3, 3) == (4, 4)
    assert fold("").span(0, 0) == (0, 0)


@pytest.mark.parametrize("length", [200, 256, 257, 600, 5_000])
def test_spans_are_right_across_pieces(length: int) -> None:
    text = ("é \u200b " * length)[:length] + "\u200b NEEDLE  " + "ж" * length
    folded = fold(text)
    start = folded.data.index(b"needle")

    assert text[slice(*folded.span(start, start + 6))] == "NEEDLE"


def test_a_piece_that_is_folded_away_keeps_the_space_before_it() -> None:
    text = "a " + "\u200b" * 600 + " B"
    folded = fold(text)

    assert folded.data == b"a b"
    assert folded.span(2, 3) == (len(text) - 1, len(text))


def test_a_text_of_nothing_visible_is_empty() -> None:
    folded = fold("\u200b" * 300 + "x")

    assert folded.span(0, 1) == (300, 301)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [("plain", False), ("café", False), ("a\u200bb", True), ("a\U000e0041", True)],
)
def test_it_says_whether_something_may_be_hidden(text: str, hidden: bool) -> None:
    assert fold(text).hidden is hidden
