"""What was refused, remembered as long as there is room."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.enforce.enforcer import Enforcer
from demur.gate.pipeline import GuardPipeline
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    RefusedTexts,
    ToolOutput,
    find_new_start,
    get_field,
    is_refusal,
    join_texts,
    list_entries,
    read_new_turn,
    refused_texts_for,
    simplify_tool_output,
)


def test_a_text_is_known_whatever_space_is_around_it() -> None:
    memory = RefusedTexts()
    memory.add(["a\ud800", " "])

    assert len(memory) == 1
    assert " a\ud800\n" in memory
    assert "b" not in memory
    assert "" not in memory
    assert 7 not in memory


def test_the_oldest_are_forgotten_first() -> None:
    memory = RefusedTexts(max_entries=2)
    memory.add("ab")
    memory.add("ac")

    assert ["a" in memory, "b" in memory, "c" in memory] == [True, False, True]


def test_clients_of_one_enforcer_share_refused_texts() -> None:
    one, other = Enforcer(pipeline=GuardPipeline([])), Enforcer(pipeline=GuardPipeline([]))

    assert refused_texts_for(one) is refused_texts_for(one)
    assert refused_texts_for(one) is not refused_texts_for(other)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("I can't.\nREFUSED: CONTEXT_INJECTION: orders in a text", True),
        ("REFUSED: CONTEXT_INJECTION: orders in a text", True),
        ("I can't.", False),
        ("", False),
        (None, False),
    ],
)
def test_a_demur_refusal_is_recognised_by_its_last_line(text: str | None, ours: bool) -> None:
    assert is_refusal(text) is ours


def is_upper(message: str) -> bool:
    return message.isupper()


@pytest.mark.parametrize(
    ("messages", "new"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a", "B", "c", "d"], ["c", "d"]),
        (["a", "b", "C"], ["a", "b", "C"]),
        (["a", "B", "c", "D", "E"], ["c", "D", "E"]),
        (["A", "B"], ["A", "B"]),
    ],
)
def test_the_newest_are_all_since_the_model_last_spoke(messages: list[str], new: list[str]) -> None:
    assert messages[find_new_start(messages, is_upper) :] == new


def reading(returned: Collection[str] = ()) -> MessageReader:
    def read(message: str) -> MessageContent:
        if message in returned:
            return MessageContent(tool_outputs=(ToolOutput("lookup", {"it says": message}),))
        return MessageContent((message,))

    return MessageReader(is_upper, lambda message: message.startswith("!"), read)


def test_the_whole_is_all_there_is_the_operators_words_too() -> None:
    messages = ["!o", "a", "B", "!p", "c"]

    assert (
        read_new_turn(messages, reading(), RefusedTexts(), recheck_history=True).text
        == "!o\na\nB\n!p\nc"
    )
    assert read_new_turn(messages, reading(), RefusedTexts(), recheck_history=False).text == "c"


def test_refused_texts_count_as_new_while_they_remain_in_the_history() -> None:
    refused = RefusedTexts()
    refused.add([" x\n", *(one.text for one in reading("y").read("y").tool_outputs)])
    turn = read_new_turn(["a", "x", "y", "B", "c"], reading("y"), refused, recheck_history=False)

    assert turn.texts == ("x", "c")
    assert [one.result for one in turn.tool_outputs] == [{"it says": "y"}]


def test_a_result_that_cannot_be_read_is_remembered_as_nothing() -> None:
    assert ToolOutput("lookup", [0] * 200_001).text == ""


@given(st.lists(st.sampled_from("abAB")), st.lists(st.sampled_from("ab"), min_size=1))
def test_the_last_messages_are_always_new(before: list[str], last: list[str]) -> None:
    messages = [*before, *last]
    assert messages[find_new_start(messages, is_upper) :][-len(last) :] == last


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("one", "one"),
        (None, ""),
        (7, ""),
        ([{"type": "text", "text": "one"}, {"type": "image"}, "two"], "one\ntwo"),
        ((SimpleNamespace(type="text", text="one"),), "one"),
        ([{"type": "document", "title": "t", "context": "c", "source": None}], "t\nc"),
        ([{"source": {"type": "text", "data": "one"}}], "one"),
        ([{"source": {"type": "base64", "data": "b25l"}}], ""),
        ([{"source": {"type": "content", "content": [{"text": "one"}]}}], "one"),
        ([{"content": "one"}, {"content": [{"text": "two"}]}], "one\ntwo"),
        ({"text": "a mapping is no list"}, ""),
    ],
)
def test_all_text_in_content_is_found(content: Any, text: str) -> None:
    assert join_texts(content) == text


def test_a_tool_output_is_simplified_to_its_text_or_kept_whole() -> None:
    mixed = [{"type": "text", "text": "one"}, {"type": "json", "value": "two"}]
    assert simplify_tool_output(mixed[:1]) == "one"
    assert simplify_tool_output(mixed) == mixed
    assert simplify_tool_output([{"stdout": "one"}]) == [{"stdout": "one"}]
    assert simplify_tool_output(None) == ""


def test_fields_are_read_of_mappings_and_objects() -> None:
    assert get_field({"role": "user"}, "role") == "user"
    assert get_field(SimpleNamespace(role="user"), "role") == "user"
    assert get_field({}, "role") is None
    assert get_field(None, "role") is None


def test_only_sequences_are_listed_as_entries() -> None:
    assert list_entries(iter("ab")) == ["a", "b"]
    assert list_entries("ab") == []
    assert list_entries({"a": 1}) == []
