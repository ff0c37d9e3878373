"""Responses and streams in the SDK's own types, of which callers see only checked content."""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from typing import Any, NamedTuple, Self

from demur.errors import DemurError
from demur.integrations._kit.conversation import get_field
from demur.integrations._kit.model_api import CallTrace, OutgoingRequest, adrive, drive, read_trace
from demur.integrations._kit.stream_filter import EventStreamFilter

# Attributes that reveal nothing of an answer.
_SAFE_ATTRIBUTES = frozenset(
    {
        "aclose",
        "close",
        "elapsed",
        "headers",
        "http_request",
        "http_version",
        "is_closed",
        "method",
        "organization_id",
        "request_id",
        "retries_taken",
        "status_code",
        "url",
        "workspace_id",
    }
)


class UncheckedAnswerError(DemurError):
    """The caller asked for content that demur cannot check."""


class CheckedResponse:
    """An HTTP response with checked content; `parse` returns the parsed value."""

    def __init__(self, response: Any, parsed: Any) -> None:
        self._response = response
        self._parsed = parsed

    @property
    def _demur_trail(self) -> CallTrace | None:
        return read_trace(self._parsed)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return type(self._response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def parse(self, **given: Any) -> Any:
        """Return the parsed value, as an awaitable if the SDK's `parse` is async."""
        if given:
            return self._response.parse(**given)
        if not inspect.iscoroutinefunction(self._response.parse):
            return self._parsed
        return _return_value(self._parsed)


class RawStreamResponse:
    """An HTTP response with a stream, readable only by `parse`, which filters it.

    With `allow_raw_bytes`, callers may also read unchecked bytes.
    """

    def __init__(
        self,
        response: Any,
        guard_stream: Callable[[Any], Any],
        trace: CallTrace,
        *,
        allow_raw_bytes: bool,
    ) -> None:
        self._response = response
        self._guard_stream = guard_stream
        self._trace = trace
        self._allow_raw_bytes = allow_raw_bytes
        self._guarded: Any = None

    @property
    def _demur_trail(self) -> CallTrace:
        return self._trace if self._guarded is None else read_trace(self._guarded) or self._trace

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return type(self._response)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._response, name)
        if self._allow_raw_bytes or name in _SAFE_ATTRIBUTES:
            return value
        raise UncheckedAnswerError(
            f"demur cannot check `{name}` of a stream",
            help="read the stream by `parse()`, or set `allow_raw_bytes`",
        )

    def parse(self, **given: Any) -> Any:
        """Return the filtered stream, as an awaitable if the SDK's `parse` is async."""
        stream = self._response.parse(**given)
        return (
            self._await_stream(stream) if inspect.isawaitable(stream) else self._guard_once(stream)
        )

    async def _await_stream(self, stream: Any) -> Any:
        return self._guard_once(await stream)

    def _guard_once(self, stream: Any) -> Any:
        # A connection can be read only once.
        if self._guarded is None:
            self._guarded = self._guard_stream(stream)
        return self._guarded


class LocalResponse:
    """Stands for the HTTP response when a fallback function returned the parsed value."""

    headers: Mapping[str, str] = {}

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    def parse(self, **_given: Any) -> Any:
        """Return the function's value."""
        return self._parsed

    def close(self) -> None:
        """Close a stream."""
        if hasattr(self._parsed, "close"):
            self._parsed.close()


class AsyncLocalResponse:
    """The async variant of `LocalResponse`."""

    headers: Mapping[str, str] = {}

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    async def parse(self, **_given: Any) -> Any:
        """Return the function's value."""
        return self._parsed

    async def close(self) -> None:
        """Close a stream."""
        if hasattr(self._parsed, "close"):
            await self._parsed.close()


async def _return_value(value: Any) -> Any:
    return value


_HELP = "return the client's own response type or stream, awaited if the client is async"


class AnswerType(NamedTuple):
    """The types of a client's answers and streams.

    `content_field` is the field with an answer's content; `defaults` fill missing fields.
    """

    answer: Any
    stream: Any
    content_field: str
    defaults: Mapping[str, Any] = {}


def coerce_answer(answer: Any, request: OutgoingRequest, answer_type: AnswerType) -> Any:
    """Return an answer in the client's own type; a stream must have that type already.

    Raises:
        UncheckedAnswerError: It cannot be converted.
    """
    if request.is_streamed(answer):
        if request.is_stream is None and not isinstance(answer, answer_type.stream):
            raise unchecked_error(answer)
        return answer
    asked = request.cast_to
    own = (
        asked
        if isinstance(asked, type) and hasattr(asked, "model_validate")
        else answer_type.answer
    )
    if isinstance(answer, (own, answer_type.answer)):
        return answer
    given = answer.model_dump() if hasattr(answer, "model_dump") else answer
    if not isinstance(given, Mapping) or not isinstance(
        given.get(answer_type.content_field), list | tuple
    ):
        raise unchecked_error(answer)
    try:
        return own.model_validate({**answer_type.defaults, **given})
    except Exception as error:
        raise unchecked_error(answer) from error


def read_entries(response: Any, name: str) -> Sequence[Any]:
    """Return the entries of a response's field; empty if the client's own type has None there.

    Raises:
        UncheckedAnswerError: The response has no such field.
    """
    found = get_field(response, name)
    if isinstance(found, list | tuple):
        return found
    if found is None and hasattr(response, name):
        return ()
    raise unchecked_error(response)


def is_iterator(answer: Any) -> bool:
    """Return whether an answer is an iterator, sync or async."""
    kind = type(answer)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def unchecked_error(answer: Any) -> UncheckedAnswerError:
    """Return the error for an answer that demur cannot check; close it if it is a coroutine."""
    if inspect.iscoroutine(answer):
        answer.close()
    return UncheckedAnswerError(
        f"demur cannot check an answer of type `{type(answer).__name__}`",
        help=_HELP,
    )


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
