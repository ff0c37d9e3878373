"""HTTP responses of an SDK, for callers who ask for them: what is read of them is judged."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from demur.errors import DemurError
from demur.integrations.model_client.trail import Trail, trail_of

__all__ = ["AsyncMadeResponse", "JudgedResponse", "MadeResponse", "RawStream", "UnjudgedError"]

# What says nothing of an answer.
_SAFE = frozenset(
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


class UnjudgedError(DemurError):
    """What was asked for would leave without being judged."""


class JudgedResponse:
    """An HTTP response whose content was judged, and that gives what it was parsed to."""

    def __init__(self, response: Any, parsed: Any) -> None:
        self._response = response
        self._parsed = parsed

    @property
    def _demur_trail(self) -> Trail | None:
        return trail_of(self._parsed)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return type(self._response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def parse(self, **given: Any) -> Any:
        """Return what the response was parsed to, awaited where the SDK has it so."""
        if given:
            return self._response.parse(**given)
        if not inspect.iscoroutinefunction(self._response.parse):
            return self._parsed
        return _had(self._parsed)


class RawStream:
    """An HTTP response that is a stream: `parse` gives it guarded, and nothing else gives it.

    With `trusts_bytes`, whoever reads bytes gets them as they come.
    """

    def __init__(
        self, response: Any, guard: Callable[[Any], Any], trail: Trail, *, trusts_bytes: bool
    ) -> None:
        self._response = response
        self._guard = guard
        self._trail = trail
        self._trusts_bytes = trusts_bytes
        self._guarded: Any = None

    @property
    def _demur_trail(self) -> Trail:
        return self._trail if self._guarded is None else trail_of(self._guarded) or self._trail

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        return type(self._response)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._response, name)
        if self._trusts_bytes or name in _SAFE:
            return value
        raise UnjudgedError(
            f"`{name}` of a stream would leave without being judged",
            help="read it by `parse()`, or set `trusts_bytes`",
        )

    def parse(self, **given: Any) -> Any:
        """Return the guarded stream, awaited where the SDK has it so."""
        stream = self._response.parse(**given)
        return self._awaited(stream) if inspect.isawaitable(stream) else self._kept(stream)

    async def _awaited(self, stream: Any) -> Any:
        return self._kept(await stream)

    def _kept(self, stream: Any) -> Any:
        # The connection can be read once.
        if self._guarded is None:
            self._guarded = self._guard(stream)
        return self._guarded


class MadeResponse:
    """In place of an HTTP response, where a function gave what one is parsed to."""

    headers: Mapping[str, str] = {}

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    def parse(self, **_given: Any) -> Any:
        """Return what the function gave."""
        return self._parsed

    def close(self) -> None:
        """Close a stream."""
        if hasattr(self._parsed, "close"):
            self._parsed.close()


class AsyncMadeResponse:
    """In place of an HTTP response, like `MadeResponse`, to be awaited."""

    headers: Mapping[str, str] = {}

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed

    async def parse(self, **_given: Any) -> Any:
        """Return what the function gave."""
        return self._parsed

    async def close(self) -> None:
        """Close a stream."""
        if hasattr(self._parsed, "close"):
            await self._parsed.close()


async def _had(value: Any) -> Any:
    return value
