"""Choices of a chat: what is read of each."""

from typing import Any

from demur.integrations.model_client.chat_form import ChatForm, said_by
from demur.integrations.model_client.form import Said

KINDS: Any = None
SETTINGS: Any = None


def test_parts_of_a_choice_are_kept_apart() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    said = said_by(None, {"message": {"content": parts, "refusal": 7}})

    assert said == Said(None, ("a", "b"))
    assert said.readings == ("ab", "a\nb")


def test_a_choice_says_whether_it_asks_for_calls() -> None:
    for given, asks in (({"tool_calls": [1]}, True), ({"function_call": {}}, False), ({}, False)):
        assert said_by(None, {"message": {"content": "a", **given}}).asks == asks


def test_choices_of_a_mapping_are_read_one_by_one() -> None:
    choices = [{"message": {"content": "a"}}, {"message": {"content": "b"}}]
    said = ChatForm(KINDS, SETTINGS, awaits=False).said({"choices": choices})

    assert [one.text for one in said] == ["a", "b"]
    assert [one.view for one in said] == [{"choices": [one]} for one in choices]
