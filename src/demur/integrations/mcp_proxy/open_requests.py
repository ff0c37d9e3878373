"""Open requests by id."""

from collections import OrderedDict
from typing import Any, NamedTuple

from demur.integrations.mcp_proxy.message import Key, Message

__all__ = ["MOST_OPEN", "Asked", "OpenRequests"]

MOST_OPEN = 10_000
# The answer to a cancelled request may come late, or never.
_MOST_CANCELLED = 1000


class Asked(NamedTuple):
    """An open request, with its id exactly as written."""

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
        """Keep a request until it is answered; return a problem, or None."""
        assert message.key is not None
        if message.key in self._open:
            return "the id is in use by another request"
        if len(self._open) >= self._most:
            return "too many requests wait for an answer"
        self._open[message.key] = Asked(message.value["id"], message.method, message.params)
        return None

    def close(self, key: Key | None) -> Asked | None:
        """Close and return the request that is answered; None if there is none."""
        if key is None:
            return None
        self._cancelled.pop(key, None)
        return self._open.pop(key, None)

    def cancel(self, key: Key | None) -> None:
        """Mark a request as cancelled; its answer may still come."""
        if key is None or key not in self._open:
            return
        self._cancelled[key] = None
        while len(self._cancelled) > _MOST_CANCELLED:
            oldest, _ = self._cancelled.popitem(last=False)
            del self._open[oldest]

    def drain(self) -> list[Asked]:
        """Return the requests that are not cancelled, and forget all."""
        waiting = [asked for key, asked in self._open.items() if key not in self._cancelled]
        self._open.clear()
        self._cancelled.clear()
        return waiting
