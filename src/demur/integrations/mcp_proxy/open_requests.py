"""Requests that wait for their answer: who was asked what, by which id."""

from collections import OrderedDict
from typing import Any, NamedTuple

from demur.integrations.mcp_proxy.message import Key, Message

__all__ = ["MOST_OPEN", "Asked", "OpenRequests"]

MOST_OPEN = 10_000
# An answer to what was cancelled may still come, or never.
_MOST_CANCELLED = 1000


class Asked(NamedTuple):
    """A request that waits: its id as it was written, and what it asks for."""

    identity: Any
    method: str
    params: dict[str, Any]


class OpenRequests:
    """The requests of one side that the other has not answered yet."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: dict[Key, Asked] = {}
        self._cancelled: OrderedDict[Key, None] = OrderedDict()

    def open(self, message: Message) -> str | None:
        """Keep a request until it is answered; return why that cannot be, or None."""
        assert message.key is not None
        if message.key in self._open:
            return "the id is in use by another request"
        if len(self._open) >= self._most:
            return "too many requests wait for an answer"
        self._open[message.key] = Asked(message.value["id"], message.method, message.params)
        return None

    def close(self, key: Key | None) -> Asked | None:
        """Return the request that is answered now; None if nobody waits for that."""
        if key is None:
            return None
        self._cancelled.pop(key, None)
        return self._open.pop(key, None)

    def cancel(self, key: Key | None) -> None:
        """Note that nobody waits for an answer any more, though one may come."""
        if key is None or key not in self._open:
            return
        self._cancelled[key] = None
        while len(self._cancelled) > _MOST_CANCELLED:
            oldest, _ = self._cancelled.popitem(last=False)
            del self._open[oldest]

    def drain(self) -> list[Asked]:
        """Return those that somebody waits for, and forget all."""
        waiting = [asked for key, asked in self._open.items() if key not in self._cancelled]
        self._open.clear()
        self._cancelled.clear()
        return waiting
