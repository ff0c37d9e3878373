import pytest

from demur.detect.writing import find_quoted_prose

LETTER = "Dear Ms Roe,\n\nI can't come on Friday.\n\nKind regards,\nKim"


def test_a_letter_reaches_from_its_greeting_to_its_closing() -> None:
    text = f"Here is a draft:\n\n{LETTER}\n\nShall I make it warmer?"
    span = find_quoted_prose(text)

    assert span is not None
    assert text[span[0] : span[1]].strip() == LETTER


@pytest.mark.parametrize(
    "text",
    [
        "Hallo Ute,\n\nich kann leider nicht kommen.\n\nViele Gr\u00fc\u00dfe\nJan",
        "Dear Ms Ito, we cannot offer a refund after two years. Kind regards, Tal",
        "I won't sing of rain,\nI won't sing of snow,\nI'll sing of the train\nyou took long ago",
    ],
)
def test_letters_and_poems_are_known(text: str) -> None:
    assert find_quoted_prose(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "Dear friend, I can't help with that.",
        "Hello there!\n\nI can't help with that.\n\nBest wishes",
        "Hi Tom,\nI can't help with that.",
        "Two lines,\nno more",
        "I can't.\n\n\n\nNot that,\nnot this",
        "I can't do that.\nIt is against the rules.\nAsk me something else.\nThank you.",
    ],
)
def test_a_plain_answer_is_neither(text: str) -> None:
    assert find_quoted_prose(text) is None


def test_a_long_run_of_white_space_is_passed_at_once() -> None:
    assert find_quoted_prose("Dear A,\nI can't help.\nlove" + " " * 7000 + ".") is None
