"""A model's stream of events, of which only what may leave is handed on.

Where nothing more may leave, the provider is not listened to any further.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from demur.integrations.model_client.cutter import EventStreamFilter
from demur.integrations.model_client.steps import adrive, drive
from demur.integrations.model_client.trail import CallTrace

__all__ = ["AsyncSdkStreamProxy", "AsyncRefusalStream", "SdkStreamProxy", "RefusalStream"]

_END = object()


class SdkStreamProxy:
    """Stands for a stream of an SDK and yields only cleared events."""

    def __init__(self, stream: Any, event_filter: EventStreamFilter) -> None:
        self._stream = stream
        self._filter = event_filter
        self._events = self._iter_events()

    @property
    def _demur_trail(self) -> CallTrace:
        return self._filter.trace

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        # Callers may tell an answer from a stream by its type.
        return type(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream and its connection."""
        self._close_source()
        # Another thread may be reading; it finds the source closed.
        with suppress(ValueError):
            self._events.close()
        if self._filter.is_complete:
            # The answer was complete, although the caller did not read to the end.
            drive(self._filter.check_model_refusal())

    def _iter_events(self) -> Generator[Any, None, None]:
        source = iter(self._stream)
        try:
            while (event := self._next_event(source)) is not _END:
                yield from drive(self._filter.feed(event))
                if self._filter.is_over:
                    return
            yield from drive(self._filter.finish())
        finally:
            self._close_source()

    def _close_source(self) -> None:
        self._stream.close()

    def _next_event(self, source: Iterator[Any]) -> Any:
        try:
            return next(source, _END)
        except Exception as error:
            drive(self._filter.check_error(error))
            raise


class AsyncSdkStreamProxy:
    """The async variant of `SdkStreamProxy`."""

    def __init__(self, stream: Any, event_filter: EventStreamFilter) -> None:
        self._stream = stream
        self._filter = event_filter
        self._events = self._iter_events()

    @property
    def _demur_trail(self) -> CallTrace:
        return self._filter.trace

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        # Callers may tell an answer from a stream by its type.
        return type(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the stream and its connection."""
        await self._close_source()
        # Another thread may be reading; it finds the source closed.
        with suppress(RuntimeError):
            await self._events.aclose()
        if self._filter.is_complete:
            await adrive(self._filter.check_model_refusal())

    async def aclose(self) -> None:
        """Close the stream, like `close`."""
        await self.close()

    async def _iter_events(self) -> AsyncGenerator[Any, None]:
        source = aiter(self._stream)
        try:
            while (event := await self._next_event(source)) is not _END:
                for one in await adrive(self._filter.feed(event)):
                    yield one
                if self._filter.is_over:
                    return
            for one in await adrive(self._filter.finish()):
                yield one
        finally:
            await self._close_source()

    async def _close_source(self) -> None:
        await self._stream.close()

    async def _next_event(self, source: AsyncIterator[Any]) -> Any:
        try:
            return await anext(source, _END)
        except Exception as error:
            await adrive(self._filter.check_error(error))
            raise


class _NoHttpResponse:
    """Stands for an HTTP response, for helpers that close it or read its headers."""

    headers: Mapping[str, str] = {}

    @property
    def request(self) -> Self:
        """Stands for the request that was not sent."""
        return self

    def close(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class RefusalStream:
    """Stands for an SDK's stream and yields the events of a refusal."""

    response = _NoHttpResponse()

    def __init__(self, events: Iterable[Any], stream_type: type) -> None:
        self._events = iter(events)
        self._stream_type = stream_type

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return self._stream_type

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream."""
        self._events = iter(())


class AsyncRefusalStream:
    """The async variant of `RefusalStream`."""

    response = _NoHttpResponse()

    def __init__(self, events: Iterable[Any], stream_type: type) -> None:
        self._events = iter(events)
        self._stream_type = stream_type

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return self._stream_type

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        event = next(self._events, _END)
        if event is _END:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the stream."""
        self._events = iter(())

    async def aclose(self) -> None:
        """Close the stream, like `close`."""
        await self.close()
