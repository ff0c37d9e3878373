from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.compaction.message import (
    MAX_MESSAGE_LENGTH,
    ContextMessage,
    normalize_text,
    read_messages,
    role_trust,
    split_words,
)


def test_white_space_and_composition_make_no_other_text() -> None:
    assert normalize_text("  Caf\u0065\u0301\r\n\tau  lait ") == "Caf\u00e9 au lait"


@pytest.mark.parametrize("other", ["no deletes", "No  deletes.", "No\u200b deletes"])
def test_case_punctuation_and_hidden_characters_do(other: str) -> None:
    assert normalize_text("No deletes") != normalize_text(other)


def test_words_know_their_place() -> None:
    text = "Don't STOP"

    assert [(w.text, text[w.start : w.end]) for w in split_words(text)] == [
        ("don", "Don"),
        ("t", "t"),
        ("stop", "STOP"),
    ]


def test_scripts_without_spaces_have_a_word_for_each_character() -> None:
    assert len({word.text for word in split_words("\u4f60\u597d ok")}) == 3


def test_trust_rises_from_tools_to_those_who_rule() -> None:
    assert (
        role_trust("tool") < role_trust("assistant") < role_trust("user") < role_trust("developer")
    )
    assert role_trust("developer") == role_trust("system")


def test_messages_are_read_in_the_shapes_of_providers() -> None:
    rows: list[dict[str, Any]] = [
        {"role": "system", "content": "a"},
        {"type": "human", "content": [{"type": "text", "text": "b"}, "c", 7]},
        {"role": "ai", "content": None},
        {"role": "function", "content": [{"type": "image"}]},
    ]

    assert [(m.role, m.content) for m in read_messages(rows)] == [
        ("system", "a"),
        ("user", "b\nc"),
        ("assistant", ""),
        ("tool", ""),
    ]


@pytest.mark.parametrize(
    "row",
    [{}, {"role": "root", "content": ""}, {"role": "user", "content": 7}, "text", {"role": []}],
)
def test_a_row_that_is_no_message_is_an_error(row: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        read_messages([row])


def test_the_row_is_named() -> None:
    with pytest.raises(InputError) as caught:
        read_messages([{"role": "user", "content": "a"}, {"role": "x", "content": "a"}])

    assert caught.value.where == "message 1"


@pytest.mark.parametrize(
    "content", [None, 7, "x" * (MAX_MESSAGE_LENGTH + 1)], ids=["none", "number", "long"]
)
def test_a_message_has_a_text_of_bounded_length(content: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        ContextMessage(role="user", content=content)
