import pytest
from made_secrets import HEX, drawn

from demur.guards.secrets.entropy import bits_per_character, count_classes, is_random, mixing_share


def test_bits_grow_with_the_number_of_different_characters() -> None:
    assert bits_per_character("") == 0
    assert bits_per_character("aaaa") == 0
    assert bits_per_character("abab") == 1
    assert bits_per_character("0123456789abcdef") == 4


def test_classes_counts_the_kinds_of_characters() -> None:
    assert [count_classes(text) for text in ("", "a", "aB", "aB1", "aB1!")] == [0, 1, 2, 3, 4]


def test_mixing_is_the_share_of_changes() -> None:
    assert mixing_share("") == mixing_share("a") == mixing_share("--") == 0
    assert mixing_share("abcd") == 0
    assert mixing_share("a1b2") == 1
    assert mixing_share("a-1") == 1


@pytest.mark.parametrize("text", [drawn(16), drawn(64), drawn(32, HEX), drawn(40, HEX.upper())])
def test_drawn_words_are_random(text: str) -> None:
    assert is_random(text)


@pytest.mark.parametrize(
    "text",
    [
        "short1A",
        drawn(20, HEX),
        "0" * 40,
        "correct-horse-battery-staple",
        "my_database_table_name_number_2",
        "getUserAccessTokenFromRequest2",
        "abcdefghijklmnopqrst",
        "aA1aA1aA1aA1aA1aA1",
    ],
)
def test_names_and_words_are_not_random(text: str) -> None:
    assert not is_random(text)
