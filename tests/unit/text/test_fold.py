import unicodedata

import pytest

from demur.text.fold import FOLD_TABLE, GREEK_CAPITALS, LOOKALIKES, fold_character, fold_text


def test_every_letter_is_read_as_ascii_and_is_not_ascii_itself() -> None:
    for letter, read in (LOOKALIKES | GREEK_CAPITALS).items():
        assert len(letter) == 1
        assert not letter.isascii()
        assert read.isascii()
        assert read == read.lower()


def test_every_letter_of_the_alphabet_has_lookalikes() -> None:
    assert set("abcdefghijklmnopqrstuvwxyz") <= set(LOOKALIKES.values())


# ruff: noqa: RUF001 - letters that look like others are what is tested


@pytest.mark.parametrize(
    ("character", "folded"),
    [
        ("A", "a"),
        ("é", "e"),
        ("ß", "ss"),
        ("İ", "i"),
        ("ﬁ", "fi"),
        ("Ｑ", "q"),
        ("𝓺", "q"),
        ("ⓠ", "q"),
        ("🅀", "q"),
        ("🆀", "q"),
        ("²", "2"),
        ("٣", "3"),
        ("\u00a0", " "),
        ("\u2028", " "),
        ("\u200b", ""),
        ("\u00ad", ""),
        ("\u202e", ""),
        ("\u0301", ""),
        ("\ufe0f", ""),
        ("\U000e0041", ""),
        ("\x00", ""),
        ("\u3164", ""),
        ("…", "..."),
        ("’", "'"),
        ("—", "-"),
        ("ʀ", "r"),
    ],
)
def test_a_character_folds_to_what_a_reader_sees(character: str, folded: str) -> None:
    assert fold_character(character) == folded


@pytest.mark.parametrize("character", ["ж", "ק", "ع", "漢", "ก", "\U00020000"])
def test_a_letter_outside_ascii_is_written_as_a_word(character: str) -> None:
    folded = fold_character(character)

    assert folded.isascii()
    assert folded.isalpha()
    assert folded.isupper()
    assert folded[0] in "ABCDEF"
    assert not set(folded[1:]) & set("ABCDEF")


def test_letters_outside_ascii_stay_different() -> None:
    letters = [chr(point) for point in range(0x4E00, 0x5600)]

    assert len({fold_character(letter) for letter in letters}) == len(letters)


@pytest.mark.parametrize("character", ["😀", "→", "\ud800", "\U0003134f"])
def test_characters_outside_words_keep_their_bytes(character: str) -> None:
    raw = character.encode("utf-8", "surrogatepass")

    assert fold_character(character).encode("latin-1") == raw


def test_composed_and_decomposed_letters_fold_alike() -> None:
    for text in ("é", "й", "한", "ǟ", "が"):
        parts = unicodedata.normalize("NFD", text)
        assert "".join(map(fold_character, parts)) == fold_character(text)


@pytest.mark.parametrize("point", [0x30000, 0x50000, 0xE1000, 0x10FFFF, 0x1AFFF])
def test_unassigned_characters_are_not_in_the_table(point: int) -> None:
    assert FOLD_TABLE[point] == fold_character(chr(point))
    assert point not in FOLD_TABLE


@pytest.mark.parametrize("point", [0x416, 0x6F22, 0x1F600, 0x20000, 0xE0041, 0xE000])
def test_noise_leaves_room_for_the_letters_that_people_write(point: int) -> None:
    for noise in range(0, 0x110000, 37):
        assert FOLD_TABLE[noise] == fold_character(chr(noise))

    FOLD_TABLE.pop(point, None)
    assert FOLD_TABLE[point] == fold_character(chr(point))
    assert point in FOLD_TABLE


# ruff: noqa: RUF001 - letters that look like others are what is tested


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
    assert fold_text(text).data == data


def test_many_different_letters_fold_like_few() -> None:
    one_by_one = b"".join(fold_text(letter).data for letter in CYRILLIC)

    assert fold_text(CYRILLIC).data == one_by_one


def test_greek_capitals_keep_their_case_among_greek_letters() -> None:
    assert fold_text("ΝΗΜΑ").data == fold_text("νημα").data


def test_a_span_maps_back_over_what_was_folded_away() -> None:
    text = "x \u200b  IG\u00adNORE\n\n all"
    folded = fold_text(text)
    start = folded.data.index(b"ignore")
    first, last = folded.original_span(start, start + 6)

    assert text[first:last] == "IG\u00adNORE"


def test_a_letter_written_with_several_bytes_maps_to_itself() -> None:
    text = "да жук ß"
    folded = fold_text(text)
    start = folded.data.index(fold_text("ж").data)

    assert folded.original_span(start + 1, start + 2) == (3, 4)
    assert folded.original_span(len(folded.data) - 1, len(folded.data)) == (7, 8)


def test_an_empty_span_and_the_end_have_their_places() -> None:
    folded = fold_text("a  b")

    assert folded.original_span(2, 2) == (3, 3)
    assert folded.original_span(3, 3) == (4, 4)
    assert fold_text("").original_span(0, 0) == (0, 0)


@pytest.mark.parametrize("length", [200, 256, 257, 600, 5_000])
def test_spans_are_right_across_pieces(length: int) -> None:
    text = ("é \u200b " * length)[:length] + "\u200b NEEDLE  " + "ж" * length
    folded = fold_text(text)
    start = folded.data.index(b"needle")

    assert text[slice(*folded.original_span(start, start + 6))] == "NEEDLE"


def test_a_piece_that_is_folded_away_keeps_the_space_before_it() -> None:
    text = "a " + "\u200b" * 600 + " B"
    folded = fold_text(text)

    assert folded.data == b"a b"
    assert folded.original_span(2, 3) == (len(text) - 1, len(text))


def test_a_text_of_nothing_visible_is_empty() -> None:
    folded = fold_text("\u200b" * 300 + "x")

    assert folded.original_span(0, 1) == (300, 301)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [("plain", False), ("café", False), ("a\u200bb", True), ("a\U000e0041", True)],
)
def test_it_says_whether_something_may_be_hidden(text: str, hidden: bool) -> None:
    assert fold_text(text).hidden is hidden


def test_each_character_of_latin_1_folds_in_company_as_it_does_alone() -> None:
    characters = [chr(point) for point in range(256)]
    alone = [fold_character(character).encode("latin-1") for character in characters]

    assert fold_text("x".join(characters)).data == squeezed(b"x".join(alone))
    assert fold_text("".join(characters)).data == squeezed(b"".join(alone))
    # With a letter of another script, the text takes the other way.
    ending = fold_character("\u6f22").encode("latin-1")
    assert fold_text("".join(characters) + "\u6f22").data == squeezed(b"".join(alone)) + ending


@pytest.mark.parametrize("letter", ["\xe9", "\u0436", "\U00050000", "e"])
def test_spans_are_right_in_a_text_of_many_wide_pieces(letter: str) -> None:
    text = f"{letter}  {letter}\xad " * 6_000
    places = range(0, len(text), 4_999)
    marked = "".join(
        f"{text[place : place + 4_999]} NEEDLE{number:02} " for number, place in enumerate(places)
    )
    folded = fold_text(marked)

    for number in range(len(places)):
        start = folded.data.index(b"needle%02d" % number)
        assert marked[slice(*folded.original_span(start, start + 8))] == f"NEEDLE{number:02}"


def squeezed(data: bytes) -> bytes:
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data
