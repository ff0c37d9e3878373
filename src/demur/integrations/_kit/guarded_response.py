"""Responses and streams in the SDK's own types, of which callers see only checked content."""

import copy
import inspect
from abc import ABC, abstractmethod
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

from demur.enforce.changes import TextChanges
from demur.enforce.context import adrive, drive
from demur.enforce.result import CheckResult
from demur.errors import DemurError
from demur.integrations._kit.conversation import MessageReader, NewTurn, get_field, read_new_turn
from demur.integrations._kit.model_api import (
    AnswerChoice,
    CallTrace,
    ModelClientSettings,
    OpenStream,
    OutgoingRequest,
    change_model,
    read_trace,
)
from demur.integrations._kit.stream_filter import EventStreamFilter, StreamEventFormat

# Attributes that reveal nothing of an answer.
_SAFE_ATTRIBUTES = frozenset(
    {"aclose", "close", "elapsed", "headers", "http_request", "http_version", "is_closed"}
    | {"method", "organization_id", "request_id", "retries_taken", "status_code", "url"}
    | {"workspace_id"}
)
_END = object()


class UncheckedAnswerError(DemurError):
    """The caller asked for content that demur cannot check."""


class _SdkProxy:
    """Stands for an object of an SDK, whose type callers may test."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class CheckedResponse(_SdkProxy):
    """An HTTP response with checked content; `parse` returns the parsed value."""

    def __init__(self, response: Any, parsed: Any) -> None:
        super().__init__(response)
        self._parsed = parsed

    @property
    def _demur_trace(self) -> CallTrace | None:
        return read_trace(self._parsed)

    def parse(self, **options: Any) -> Any:
        """Return the parsed value, as an awaitable if the SDK's `parse` is async."""
        if options:
            return self._inner.parse(**options)
        if not inspect.iscoroutinefunction(self._inner.parse):
            return self._parsed
        return AsyncLocalResponse(self._parsed).parse()


class RawStreamResponse(_SdkProxy):
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
        super().__init__(response)
        self._guard_stream = guard_stream
        self._trace = trace
        self._allow_raw_bytes = allow_raw_bytes
        self._guarded: Any = None

    @property
    def _demur_trace(self) -> CallTrace:
        return self._trace if self._guarded is None else read_trace(self._guarded) or self._trace

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if self._allow_raw_bytes or name in _SAFE_ATTRIBUTES:
            return value
        raise UncheckedAnswerError(
            f"demur cannot check `{name}` of a stream",
            help="read the stream by `parse()`, or set `allow_raw_bytes`",
        )

    def parse(self, **options: Any) -> Any:
        """Return the filtered stream, as an awaitable if the SDK's `parse` is async."""
        stream = self._inner.parse(**options)
        return self._aguard(stream) if inspect.isawaitable(stream) else self._guard(stream)

    async def _aguard(self, stream: Any) -> Any:
        return self._guard(await stream)

    def _guard(self, stream: Any) -> Any:
        # A connection can be read only once.
        if self._guarded is None:
            self._guarded = self._guard_stream(stream)
        return self._guarded


class LocalResponse:
    """Stands for the HTTP response when a fallback function returned the parsed value."""

    headers: Mapping[str, str] = {}

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    def parse(self, **_options: Any) -> Any:
        """Return the function's value."""
        return self._parsed

    def close(self) -> Any:
        """Close a stream."""
        return self._parsed.close() if hasattr(self._parsed, "close") else None


class AsyncLocalResponse(LocalResponse):
    """The async variant of `LocalResponse`."""

    async def parse(self, **_options: Any) -> Any:
        """Return the function's value."""
        return self._parsed

    async def close(self) -> None:
        """Close a stream."""
        closing = super().close()
        if closing is not None:
            await closing


class SdkStreamProxy(_SdkProxy):
    """Stands for a stream of an SDK and yields only cleared events."""

    def __init__(self, stream: Any, event_filter: EventStreamFilter) -> None:
        super().__init__(stream)
        self._filter = event_filter
        self._events = self._iter_events()

    @property
    def _demur_trace(self) -> CallTrace:
        return self._filter.trace

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
        source = iter(self._inner)
        try:
            while (event := self._next_event(source)) is not _END:
                yield from drive(self._filter.feed(event))
                if self._filter.is_over:
                    return
            yield from drive(self._filter.finish())
        finally:
            self._close_source()

    def _close_source(self) -> None:
        self._inner.close()

    def _next_event(self, source: Iterator[Any]) -> Any:
        try:
            return next(source, _END)
        except Exception as error:
            drive(self._filter.check_error(error))
            raise


class AsyncSdkStreamProxy(_SdkProxy):
    """The async variant of `SdkStreamProxy`."""

    def __init__(self, stream: Any, event_filter: EventStreamFilter) -> None:
        super().__init__(stream)
        self._filter = event_filter
        self._events = self._iter_events()

    @property
    def _demur_trace(self) -> CallTrace:
        return self._filter.trace

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
        # Another task may be reading; it finds the source closed.
        with suppress(RuntimeError):
            await self._events.aclose()
        if self._filter.is_complete:
            await adrive(self._filter.check_model_refusal())

    async def aclose(self) -> None:
        """Close the stream, like `close`."""
        await self.close()

    async def _iter_events(self) -> AsyncGenerator[Any, None]:
        source = aiter(self._inner)
        try:
            while (event := await self._next_event(source)) is not _END:
                for cleared in await adrive(self._filter.feed(event)):
                    yield cleared
                if self._filter.is_over:
                    return
            for cleared in await adrive(self._filter.finish()):
                yield cleared
        finally:
            await self._close_source()

    async def _close_source(self) -> None:
        await self._inner.close()

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
        self._events = iter(())

    def close(self) -> None:
        """Close the stream."""
        self._events = iter(())


class AsyncRefusalStream:
    """The async variant of `RefusalStream`."""

    response = _NoHttpResponse()

    def __init__(self, events: Iterable[Any], stream_type: type) -> None:
        self._inner = RefusalStream(events, stream_type)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return self._inner.__class__

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        for event in self._inner:
            return event
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._inner.close()

    async def close(self) -> None:
        """Close the stream."""
        self._inner.close()

    aclose = close


class AnswerType(NamedTuple):
    """The type of a client's answers.

    `content_field` is the field with an answer's content; `defaults` fill missing fields.
    """

    answer: Any
    content_field: str
    defaults: Mapping[str, Any] = {}


class ApiFormat(ABC):
    """How one API of a provider represents requests, responses and refusals.

    Of each pair of types, the first is for sync clients, the second for async ones.
    """

    def __init__(
        self,
        settings: ModelClientSettings,
        stream_types: tuple[Any, Any],
        stream_proxies: tuple[Any, Any] = (SdkStreamProxy, AsyncSdkStreamProxy),
    ) -> None:
        self._settings = settings
        self._reads_all = False
        self._stream_type = stream_types[settings.is_async]
        self._stream_proxy = stream_proxies[settings.is_async]

    @abstractmethod
    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request."""

    @abstractmethod
    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a response.

        Raises:
            UncheckedAnswerError: The response has no readable choices.
        """

    @abstractmethod
    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing response for a request that was not sent."""

    @abstractmethod
    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a response with these choices replaced by refusals."""

    @abstractmethod
    def answer_type(self, request: OutgoingRequest) -> AnswerType:
        """Return the type of answers to a request."""

    @abstractmethod
    def event_format(self, request: OutgoingRequest) -> StreamEventFormat:
        """Return the format of the events of one stream."""

    @abstractmethod
    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Iterable[Any]:
        """Return the events of a refusing stream for a request that was not sent."""

    @abstractmethod
    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more message of the user."""

    def change_texts(self, response: Any, changes: TextChanges) -> Any:
        """Return a response, or an event of a stream, with changed texts."""
        return change_model(response, changes)

    def read_conversation(self, body: Mapping[str, Any]) -> NewTurn:
        """Return all that users and tools have said in a request, new or not."""
        whole = copy.copy(self)
        whole._reads_all = True  # noqa: SLF001 - a copy of our own
        return whole.read_turn(body)

    def read_new_turn(self, messages: Sequence[Any], reader: MessageReader) -> NewTurn:
        """Return the messages to check, by the settings."""
        refused, recheck = self._settings.refused_texts, self._settings.recheck_history
        if self._reads_all:
            mine = (one for one in messages if not reader.is_answer(one))
            messages, recheck = [one for one in mine if not reader.is_operator(one)], True
        return read_new_turn(messages, reader, refused, recheck_history=recheck)

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        """Return the value of a fallback function in the client's own type.

        Raises:
            UncheckedAnswerError: It is no answer of this API, or a stream of another type.
        """
        if request.is_streamed(answer):
            if request.is_stream is None and not isinstance(answer, self._stream_type):
                raise unchecked_error(answer)
            return answer
        kind, content_field, defaults = self.answer_type(request)
        own = request.response_type(kind) if isinstance(request.cast_to, type) else kind
        if isinstance(answer, (own, kind)):
            return answer
        fields = answer.model_dump() if hasattr(answer, "model_dump") else answer
        content = fields.get(content_field) if isinstance(fields, Mapping) else None
        if not isinstance(content, list | tuple):
            raise unchecked_error(answer)
        try:
            return own.model_validate({**defaults, **fields})
        except Exception as error:
            raise unchecked_error(answer) from error

    def build_refusal_stream(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing stream for a request that was not sent."""
        proxy = AsyncRefusalStream if self._settings.is_async else RefusalStream
        return proxy(self.refusal_events(result, request), self._stream_type)

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared events."""
        event_filter = EventStreamFilter(self.event_format(request), opened, self._settings)
        return self._stream_proxy(opened.stream, event_filter)

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:
        """Return a refusing response in the type that the caller parses to."""
        assert request.parse is not None
        return request.parse(response)


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
        help="return the client's own response type or stream, awaited if the client is async",
    )
