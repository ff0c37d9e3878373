"""HTTP responses of an SDK, for callers who ask for them: what is read of them is judged."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from demur.errors import DemurError
from demur.integrations.model_client.trail import CallTrace, read_trace

__all__ = [
    "AsyncLocalResponse",
    "CheckedResponse",
    "LocalResponse",
    "RawStreamResponse",
    "UncheckedAnswerError",
]

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
            help="read the stream by `parse()`, or set `trusts_bytes`",
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
