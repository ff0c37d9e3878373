"""Streams of what may leave: closed in every case, and otherwise those of the client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from toy_models import Event, ToyEvents, ToyStream, settings

from demur.enforce.ruling import Refused
from demur.integrations.model_client.cutter import EventStreamFilter
from demur.integrations.model_client.form import OpenStream
from demur.integrations.model_client.stream import (
    AsyncSdkStreamProxy,
    AsyncRefusalStream,
    SdkStreamProxy,
    RefusalStream,
)
from demur.integrations.model_client.trail import (
    ModelAttempt,
    CallTrace,
    read_check_result,
    read_trace,
)
from demur.integrations.model_client.turn import NewTurn

SORRY = "I'm sorry, but I can't help with that request."


class AsyncToyStream(ToyStream):
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


def cutter(*, awaits: bool, **given: Any) -> EventStreamFilter:
    opened = OpenStream(None, NewTurn("hello"), CallTrace(attempts=(ModelAttempt("m1"),)))
    return EventStreamFilter(ToyEvents(), opened, settings(**given), is_async=awaits)


def guarded(*events: Event | Exception, **given: Any) -> tuple[ToyStream, SdkStreamProxy]:
    stream = ToyStream(*events)
    return stream, SdkStreamProxy(stream, cutter(awaits=False, **given))


def test_what_may_leave_leaves_and_the_stream_is_closed() -> None:
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


def test_a_stream_given_up_is_closed_and_not_ruled_on() -> None:
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
    assert isinstance(stream, ToyStream)
    with pytest.raises(AttributeError):
        _ = stream.nothing


def test_awaited_streams_do_the_same() -> None:
    async def played() -> None:
        inner = AsyncToyStream(Event("a"), Event("b", end=True))
        stream = AsyncSdkStreamProxy(inner, cutter(awaits=True))
        assert [event async for event in stream] == [Event("a"), Event("b"), Event(end=True)]
        assert inner.closed

        inner = AsyncToyStream(Event("bad", end=True), Event("more"))
        stream = AsyncSdkStreamProxy(inner, cutter(awaits=True, on_refusal="answer"))
        assert (await anext(stream)).text
        assert [event.end async for event in stream] == [True]
        assert inner.closed

        inner = AsyncToyStream(Event("a"), ConnectionError())
        stream = AsyncSdkStreamProxy(inner, cutter(awaits=True))
        with pytest.raises(ConnectionError):
            [event async for event in stream]
        assert inner.closed

        inner = AsyncToyStream(Event(SORRY), Event(end=True), Event())
        inner.response = "200"  # type: ignore[attr-defined]
        async with AsyncSdkStreamProxy(inner, cutter(awaits=True)) as stream:
            await anext(stream)
            assert stream.response == "200"
            assert isinstance(stream, AsyncToyStream)
        ruling = read_check_result(stream)
        assert ruling is not None
        assert not ruling.allowed

        inner = AsyncToyStream(Event("a"), Event("b"))
        stream = AsyncSdkStreamProxy(inner, cutter(awaits=True))
        await stream.aclose()
        assert inner.closed

        inner = AsyncToyStream(Event("a"), Event("b"))
        stream = AsyncSdkStreamProxy(inner, cutter(awaits=True))
        assert [event async for event in stream] == [Event("a"), Event("b")]

    asyncio.run(played())


def test_events_said_without_a_model_are_a_stream_too() -> None:
    with RefusalStream([Event("a"), Event("b")], list) as stream:
        assert next(stream) == Event("a")
        assert list(stream) == [Event("b")]
    assert list(stream) == []
    assert isinstance(stream, list)
    stream.response.close()
    assert stream.response.request.headers == {}


def test_awaited_events_said_without_a_model_are_a_stream_too() -> None:
    async def played() -> None:
        async with AsyncRefusalStream([Event("a"), Event("b")], list) as stream:
            assert await anext(stream) == Event("a")
            assert [event async for event in stream] == [Event("b")]
        assert [event async for event in stream] == []
        await stream.aclose()
        assert isinstance(stream, list)
        await stream.response.aclose()

    asyncio.run(played())
