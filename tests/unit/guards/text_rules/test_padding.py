from demur.guards.text_rules.padding import MAX_PADDING, PADDING, find_padding, find_padding_start
from demur.scan.alphabet import fold_character

# All of Unicode but the large blocks of Chinese, Korean and private letters.
POINTS = [
    point
    for first, last in (
        (0, 0x3400),
        (0xA000, 0xAC00),
        (0xD7A4, 0xE000),
        (0xF900, 0x17000),
        (0x1AFF0, 0x20000),
        (0xE0000, 0xE1000),
    )
    for point in range(first, last)
]


def test_everything_that_folds_away_is_padding() -> None:
    gone = [chr(point) for point in POINTS if fold_character(chr(point)) in {"", " "}]

    assert [character for character in gone if not PADDING.fullmatch(character)] == []


def test_letters_are_no_padding() -> None:
    assert [text for text in ("a", "é", "ж", "漢", "1", "-", "") if PADDING.fullmatch(text)] == [""]


def test_the_first_run_that_is_too_long_is_found() -> None:
    long = " " * (MAX_PADDING + 1)

    assert find_padding(f"ab{long[1:]}c", 0) is None
    assert find_padding(f"ab{long}c", 0) == 2
    assert find_padding(f"a b{long}c{long}", 0) == 3
    assert find_padding(f"ab{long}c", 3) is None


def test_padding_at_the_end_is_measured() -> None:
    assert find_padding_start("ab \u200b\n", 0, 5) == 2
    assert find_padding_start("   ", 0, 3) == 0
    assert find_padding_start("   ", 1, 3) == 1
    assert find_padding_start("ab", 0, 2) == 2
