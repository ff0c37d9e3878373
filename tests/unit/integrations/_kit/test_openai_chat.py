"""Choices of a chat: what is read of each."""

from support.sample_models import settings

from demur.integrations._kit.model_api import AnswerChoice
from demur.integrations._kit.openai_chat import ChatFormat, ChatTypes, read_choice

TYPES = ChatTypes(None, None, None, None, (list, list))


def test_parts_of_a_choice_are_kept_apart() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    said = read_choice(None, {"message": {"content": parts, "refusal": 7}})

    assert said == AnswerChoice(None, ("a", "b"))
    assert said.readings == ("ab", "a\nb")


def test_a_choice_says_whether_it_asks_for_calls() -> None:
    for given, asks in (({"tool_calls": [1]}, True), ({"function_call": {}}, False), ({}, False)):
        assert read_choice(None, {"message": {"content": "a", **given}}).has_calls == asks


def test_choices_of_a_mapping_are_read_one_by_one() -> None:
    choices = [{"message": {"content": "a"}}, {"message": {"content": "b"}}]
    said = ChatFormat(TYPES, settings()).read_choices({"choices": choices})

    assert [one.text for one in said] == ["a", "b"]
    assert [one.source for one in said] == [{"choices": [one]} for one in choices]
