"""What is new in a conversation, whatever form it comes in."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.model_client.memory import Memory
from demur.integrations.model_client.turn import (
    Read,
    Reading,
    Returned,
    field,
    listed,
    newest,
    result_of,
    text_of,
    turn_of,
)


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
    assert newest(messages, is_upper) == new


def reading(returned: Collection[str] = ()) -> Reading:
    def read(message: str) -> Read:
        if message in returned:
            return Read(returned=(Returned("lookup", {"it says": message}),))
        return Read((message,))

    return Reading(is_upper, lambda message: message.startswith("!"), read)


def test_the_whole_is_all_there_is_the_operators_words_too() -> None:
    messages = ["!o", "a", "B", "!p", "c"]

    assert turn_of(messages, reading(), Memory(), whole=True).text == "!o\na\nB\n!p\nc"
    assert turn_of(messages, reading(), Memory(), whole=False).text == "c"


def test_what_was_refused_is_new_as_long_as_it_is_there() -> None:
    refused = Memory()
    refused.add([" x\n", *(one.text for one in reading("y").read("y").returned)])
    turn = turn_of(["a", "x", "y", "B", "c"], reading("y"), refused, whole=False)

    assert turn.said == ("x", "c")
    assert [one.result for one in turn.returned] == [{"it says": "y"}]


def test_a_result_that_cannot_be_read_is_remembered_as_nothing() -> None:
    assert Returned("lookup", [0] * 200_001).text == ""


@given(st.lists(st.sampled_from("abAB")), st.lists(st.sampled_from("ab"), min_size=1))
def test_whatever_stands_last_is_new(before: list[str], last: list[str]) -> None:
    assert list(newest([*before, *last], is_upper))[-len(last) :] == last


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
    assert text_of(content) == text


def test_what_a_tool_returned_is_its_text_or_all_of_it() -> None:
    mixed = [{"type": "text", "text": "one"}, {"type": "json", "value": "two"}]
    assert result_of(mixed[:1]) == "one"
    assert result_of(mixed) == mixed
    assert result_of([{"stdout": "one"}]) == [{"stdout": "one"}]
    assert result_of(None) == ""


def test_fields_are_read_of_mappings_and_objects() -> None:
    assert field({"role": "user"}, "role") == "user"
    assert field(SimpleNamespace(role="user"), "role") == "user"
    assert field({}, "role") is None
    assert field(None, "role") is None


def test_a_list_is_made_of_what_has_entries() -> None:
    assert listed(iter("ab")) == ["a", "b"]
    assert listed("ab") == []
    assert listed({"a": 1}) == []
