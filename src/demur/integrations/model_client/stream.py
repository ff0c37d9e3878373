"""A model's stream of events, of which only what may leave is handed on.

Where nothing more may leave, the provider is not listened to any further.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from demur.integrations.model_client.cutter import Cutter
from demur.integrations.model_client.steps import atake, take
from demur.integrations.model_client.trail import Trail

__all__ = ["AsyncGuardedStream", "AsyncSaidStream", "GuardedStream", "SaidStream"]

_END = object()


class GuardedStream:
    """Stands for a stream of an SDK and yields only cleared events."""

    def __init__(self, stream: Any, cutter: Cutter) -> None:
        self._stream = stream
        self._cutter = cutter
        self._events = self._run()

    @property
    def _demur_trail(self) -> Trail:
        return self._cutter.trail

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
        self._release()
        # Another thread may be reading; it finds the source closed.
        with suppress(ValueError):
            self._events.close()
        if self._cutter.complete:
            # The answer was complete, although the caller did not read to the end.
            take(self._cutter.declined())

    def _run(self) -> Generator[Any, None, None]:
        source = iter(self._stream)
        try:
            while (event := self._next(source)) is not _END:
                yield from take(self._cutter.feed(event))
                if self._cutter.over:
                    return
            yield from take(self._cutter.finish())
        finally:
            self._release()

    def _release(self) -> None:
        self._stream.close()

    def _next(self, source: Iterator[Any]) -> Any:
        try:
            return next(source, _END)
        except Exception as error:
            take(self._cutter.failed(error))
            raise


class AsyncGuardedStream:
    """The async variant of `SdkStreamProxy`."""

    def __init__(self, stream: Any, cutter: Cutter) -> None:
        self._stream = stream
        self._cutter = cutter
        self._events = self._run()

    @property
    def _demur_trail(self) -> Trail:
        return self._cutter.trail

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
        await self._release()
        # Another thread may be reading; it finds the source closed.
        with suppress(RuntimeError):
            await self._events.aclose()
        if self._cutter.complete:
            await atake(self._cutter.declined())

    async def aclose(self) -> None:
        """Close the stream, like `close`."""
        await self.close()

    async def _run(self) -> AsyncGenerator[Any, None]:
        source = aiter(self._stream)
        try:
            while (event := await self._next(source)) is not _END:
                for one in await atake(self._cutter.feed(event)):
                    yield one
                if self._cutter.over:
                    return
            for one in await atake(self._cutter.finish()):
                yield one
        finally:
            await self._release()

    async def _release(self) -> None:
        await self._stream.close()

    async def _next(self, source: AsyncIterator[Any]) -> Any:
        try:
            return await anext(source, _END)
        except Exception as error:
            await atake(self._cutter.failed(error))
            raise


class _Unsent:
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


class SaidStream:
    """Stands for an SDK's stream and yields the events of a refusal."""

    response = _Unsent()

    def __init__(self, events: Iterable[Any], kind: type) -> None:
        self._events = iter(events)
        self._kind = kind

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return self._kind

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


class AsyncSaidStream:
    """The async variant of `RefusalStream`."""

    response = _Unsent()

    def __init__(self, events: Iterable[Any], kind: type) -> None:
        self._events = iter(events)
        self._kind = kind

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return self._kind

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
