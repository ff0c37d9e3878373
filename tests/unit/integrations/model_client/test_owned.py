"""What a function gave in a model's place: made the client's own, or turned away."""

from typing import Any

import pytest
from pydantic import BaseModel

from demur.integrations.model_client.form import OutgoingRequest, AnswerChoice
from demur.integrations.model_client.owned import (
    AnswerType,
    read_entries,
    is_iterator,
    coerce_answer,
)
from demur.integrations.model_client.raw import UncheckedAnswerError


class Whole(BaseModel):
    id: str
    parts: list[str] | None = None


class Special(Whole):
    pass


KIND = AnswerType(Whole, type(iter([])), "parts", {"id": "made"})


def posted(**given: Any) -> OutgoingRequest:
    return OutgoingRequest(lambda _body: None, {}, **given)


def test_what_is_the_clients_own_stays_as_it_is() -> None:
    for given in (Whole(id="a"), Special(id="a")):
        assert coerce_answer(given, posted(cast_to=Special), KIND) is given


@pytest.mark.parametrize("given", [{"parts": ["a"]}, {"id": "made", "parts": ["a"]}])
def test_a_mapping_or_an_object_of_another_library_is_made_the_clients_own(given: Any) -> None:
    class Other(BaseModel):
        parts: list[str]

    assert coerce_answer(given, posted(), KIND) == Whole(id="made", parts=["a"])
    assert coerce_answer(Other(parts=["a"]), posted(cast_to=Special), KIND) == Special(
        id="made", parts=["a"]
    )
    assert coerce_answer(given, posted(cast_to=object), KIND) == Whole(id="made", parts=["a"])


@pytest.mark.parametrize(
    "given", [None, "text", 7, {"id": "a"}, {"parts": 7}, {"parts": [7]}, iter(["a"])]
)
def test_anything_else_does_not_leave(given: Any) -> None:
    with pytest.raises(UncheckedAnswerError, match="demur cannot check"):
        coerce_answer(given, posted(), KIND)


def test_what_was_not_awaited_is_given_up() -> None:
    async def later() -> Whole:
        return Whole(id="a")

    given: Any = later()
    with pytest.raises(UncheckedAnswerError, match="coroutine"):
        coerce_answer(given, posted(), KIND)
    assert given.cr_frame is None


def test_a_stream_has_to_be_one_of_the_clients() -> None:
    stream = iter(["a"])
    assert coerce_answer(stream, posted(streams=True), KIND) is stream
    for other in ((one for one in "a"), Whole(id="a")):
        with pytest.raises(UncheckedAnswerError):
            coerce_answer(other, posted(streams=True), KIND)
        assert coerce_answer(other, posted(is_stream=is_iterator), KIND) is other


def test_entries_are_those_of_a_list() -> None:
    assert read_entries({"parts": ("a",)}, "parts") == ("a",)
    assert read_entries(Whole(id="a"), "parts") == ()
    for other in ({}, {"parts": None}, {"parts": "a"}, object()):
        with pytest.raises(UncheckedAnswerError):
            read_entries(other, "parts")


def test_words_of_a_refusal_are_read_with_the_rest() -> None:
    assert AnswerChoice(None, ("a", "", "b"), refusal_text="c").readings == ("abc", "a\nb\nc")
    assert AnswerChoice(None, refusal_text="c").readings == ("c",)
    assert AnswerChoice(None, ("a",)).readings == ("a",)
    assert AnswerChoice(None, ("a",), refusal_text="c").text == "a"
    assert AnswerChoice(None).readings == ()
