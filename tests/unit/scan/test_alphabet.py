# ruff: noqa: RUF001 - letters that look like others are what is tested

import unicodedata

import pytest

from demur.scan.alphabet import FOLD_TABLE, fold_character


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
def test_what_no_word_is_made_of_keeps_its_bytes(character: str) -> None:
    raw = character.encode("utf-8", "surrogatepass")

    assert fold_character(character).encode("latin-1") == raw


def test_composed_and_decomposed_letters_fold_alike() -> None:
    for text in ("é", "й", "한", "ǟ", "が"):
        parts = unicodedata.normalize("NFD", text)
        assert "".join(map(fold_character, parts)) == fold_character(text)


@pytest.mark.parametrize("point", [0x30000, 0x50000, 0xE1000, 0x10FFFF, 0x1AFFF])
def test_what_is_not_assigned_takes_no_room_in_the_table(point: int) -> None:
    assert FOLD_TABLE[point] == fold_character(chr(point))
    assert point not in FOLD_TABLE


@pytest.mark.parametrize("point", [0x416, 0x6F22, 0x1F600, 0x20000, 0xE0041, 0xE000])
def test_noise_leaves_room_for_the_letters_that_people_write(point: int) -> None:
    for noise in range(0, 0x110000, 37):
        assert FOLD_TABLE[noise] == fold_character(chr(noise))

    FOLD_TABLE.pop(point, None)
    assert FOLD_TABLE[point] == fold_character(chr(point))
    assert point in FOLD_TABLE
