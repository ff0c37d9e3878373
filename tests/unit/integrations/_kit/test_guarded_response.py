"""What a function gave in a model's place: made the client's own, or turned away."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from support.sample_models import Event, SampleEvents, SampleForm, SampleStream, settings

from demur.enforce.result import Refused
from demur.integrations._kit.conversation import NewTurn
from demur.integrations._kit.guarded_response import (
    AnswerType,
    ApiFormat,
    AsyncRefusalStream,
    AsyncSdkStreamProxy,
    RefusalStream,
    SdkStreamProxy,
    UncheckedAnswerError,
    is_iterator,
    read_entries,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    CallTrace,
    ModelAttempt,
    OpenStream,
    OutgoingRequest,
    read_check_result,
    read_trace,
)
from demur.integrations._kit.stream_filter import EventStreamFilter


class Whole(BaseModel):
    id: str
    parts: list[str] | None = None


class Special(Whole):
    pass


class WholeForm(SampleForm):
    coerce_answer = ApiFormat.coerce_answer

    def __init__(self) -> None:
        kind: Any = type(iter([]))
        ApiFormat.__init__(self, settings(), (kind, kind))

    def answer_type(self, request: OutgoingRequest) -> AnswerType:  # noqa: ARG002 - part of the protocol
        """Return the type of answers."""
        return AnswerType(Whole, "parts", {"id": "made"})


coerce_answer = WholeForm().coerce_answer


def posted(**given: Any) -> OutgoingRequest:
    return OutgoingRequest(lambda _body: None, {}, **given)


def test_an_answer_of_the_client_library_is_kept() -> None:
    for given in (Whole(id="a"), Special(id="a")):
        assert coerce_answer(given, posted(cast_to=Special)) is given


@pytest.mark.parametrize("given", [{"parts": ["a"]}, {"id": "made", "parts": ["a"]}])
def test_a_mapping_or_foreign_object_is_coerced_to_the_client_type(given: Any) -> None:
    class Other(BaseModel):
        parts: list[str]

    assert coerce_answer(given, posted()) == Whole(id="made", parts=["a"])
    assert coerce_answer(Other(parts=["a"]), posted(cast_to=Special)) == Special(
        id="made", parts=["a"]
    )
    assert coerce_answer(given, posted(cast_to=object)) == Whole(id="made", parts=["a"])


@pytest.mark.parametrize(
    "given", [None, "text", 7, {"id": "a"}, {"parts": 7}, {"parts": [7]}, iter(["a"])]
)
def test_anything_else_does_not_leave(given: Any) -> None:
    with pytest.raises(UncheckedAnswerError, match="demur cannot check"):
        coerce_answer(given, posted())


def test_an_unawaited_coroutine_is_closed_and_rejected() -> None:
    async def later() -> Whole:
        return Whole(id="a")

    given: Any = later()
    with pytest.raises(UncheckedAnswerError, match="coroutine"):
        coerce_answer(given, posted())
    assert given.cr_frame is None


def test_a_stream_has_to_be_one_of_the_clients() -> None:
    stream = iter(["a"])
    assert coerce_answer(stream, posted(wants_stream=True)) is stream
    for other in ((one for one in "a"), Whole(id="a")):
        with pytest.raises(UncheckedAnswerError):
            coerce_answer(other, posted(wants_stream=True))
        assert coerce_answer(other, posted(is_stream=is_iterator)) is other


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


SORRY = "I'm sorry, but I can't help with that request."


class AsyncToyStream(SampleStream):
    """A stream, awaited."""

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self._events:
            await asyncio.sleep(0)
            if isinstance(event, Exception):
                raise event
            yield event

    async def close(self) -> None:  # type: ignore[override]
        """Note it."""
        await asyncio.sleep(0)
        self.closed = True


def cutter(**given: Any) -> EventStreamFilter:
    opened = OpenStream(None, NewTurn("hello"), CallTrace(attempts=(ModelAttempt("m1"),)))
    return EventStreamFilter(SampleEvents(), opened, settings(**given))


def guarded(*events: Event | Exception, **given: Any) -> tuple[SampleStream, SdkStreamProxy]:
    stream = SampleStream(*events)
    return stream, SdkStreamProxy(stream, cutter(**given))


def test_allowed_events_are_yielded_and_the_stream_is_closed() -> None:
    inner, stream = guarded(Event("a"), Event("b", end=True))

    assert list(stream) == [Event("a"), Event("b"), Event(end=True)]
    assert inner.closed
    ruling = read_check_result(stream)
    assert ruling is not None
    assert ruling.allowed


def test_a_cut_closes_the_stream_and_reads_no_further() -> None:
    inner, stream = guarded(Event("bad", end=True), Event("more"), on_refusal="answer")

    assert next(stream).text
    assert next(stream).end
    assert list(stream) == []
    assert inner.closed
    assert next(inner._events) == Event("more")


def test_a_refusal_that_is_raised_closes_the_stream() -> None:
    inner, stream = guarded(Event("bad", end=True))

    with pytest.raises(Refused):
        list(stream)
    assert inner.closed


def test_an_error_closes_the_stream_and_leaves_as_it_is() -> None:
    inner, stream = guarded(Event("a"), ConnectionError())

    with pytest.raises(ConnectionError):
        list(stream)
    assert inner.closed


def test_an_abandoned_stream_is_closed_without_a_check_result() -> None:
    inner, stream = guarded(Event(SORRY), Event(end=True))
    with stream:
        pass

    assert inner.closed
    trail = read_trace(stream)
    assert trail is not None
    assert trail.result is None


def test_a_stream_left_at_its_end_is_ruled_on() -> None:
    _, stream = guarded(Event(SORRY), Event(end=True), Event())
    with stream:
        assert [next(stream), next(stream)] == [Event(SORRY), Event(end=True)]

    ruling = read_check_result(stream)
    assert ruling is not None
    assert not ruling.allowed


def test_everything_else_is_the_clients_own() -> None:
    inner, stream = guarded()
    inner.response = "200"  # type: ignore[attr-defined]

    assert stream.response == "200"
    assert isinstance(stream, SampleStream)
    with pytest.raises(AttributeError):
        _ = stream.nothing


def test_awaited_streams_do_the_same() -> None:
    async def played() -> None:
        inner = AsyncToyStream(Event("a"), Event("b", end=True))
        stream = AsyncSdkStreamProxy(inner, cutter())
        assert [event async for event in stream] == [Event("a"), Event("b"), Event(end=True)]
        assert inner.closed

        inner = AsyncToyStream(Event("bad", end=True), Event("more"))
        stream = AsyncSdkStreamProxy(inner, cutter(on_refusal="answer"))
        assert (await anext(stream)).text
        assert [event.end async for event in stream] == [True]
        assert inner.closed

        inner = AsyncToyStream(Event("a"), ConnectionError())
        stream = AsyncSdkStreamProxy(inner, cutter())
        with pytest.raises(ConnectionError):
            [event async for event in stream]
        assert inner.closed

        inner = AsyncToyStream(Event(SORRY), Event(end=True), Event())
        inner.response = "200"  # type: ignore[attr-defined]
        async with AsyncSdkStreamProxy(inner, cutter()) as stream:
            await anext(stream)
            assert stream.response == "200"
            assert isinstance(stream, AsyncToyStream)
        ruling = read_check_result(stream)
        assert ruling is not None
        assert not ruling.allowed

        inner = AsyncToyStream(Event("a"), Event("b"))
        stream = AsyncSdkStreamProxy(inner, cutter())
        await stream.aclose()
        assert inner.closed

        inner = AsyncToyStream(Event("a"), Event("b"))
        stream = AsyncSdkStreamProxy(inner, cutter())
        assert [event async for event in stream] == [Event("a"), Event("b")]

    asyncio.run(played())


def test_a_refusal_stream_yields_its_events() -> None:
    with RefusalStream([Event("a"), Event("b")], list) as stream:
        assert next(stream) == Event("a")
        assert list(stream) == [Event("b")]
    assert list(stream) == []
    assert isinstance(stream, list)
    stream.response.close()
    assert stream.response.request.headers == {}


def test_an_async_refusal_stream_yields_its_events() -> None:
    async def played() -> None:
        async with AsyncRefusalStream([Event("a"), Event("b")], list) as stream:
            assert await anext(stream) == Event("a")
            assert [event async for event in stream] == [Event("b")]
        assert [event async for event in stream] == []
        await stream.aclose()
        assert isinstance(stream, list)
        await stream.response.aclose()

    asyncio.run(played())
