"""Open requests by id."""

from collections import OrderedDict
from typing import Any, NamedTuple

from demur.integrations.mcp_proxy.message import RequestKey, RpcMessage

__all__ = ["MAX_OPEN_REQUESTS", "OpenRequest", "OpenRequests"]

MAX_OPEN_REQUESTS = 10_000
# The answer to a cancelled request may come late, or never.
_MAX_CANCELLED = 1000


class OpenRequest(NamedTuple):
    """An open request, with its id exactly as written."""

    request_id: Any
    method: str
    params: dict[str, Any]


class OpenRequests:
    """The requests of one side that the other has not answered yet."""

    def __init__(self, max_open: int = MAX_OPEN_REQUESTS) -> None:
        self._max_open = max_open
        self._open: dict[RequestKey, OpenRequest] = {}
        self._cancelled: OrderedDict[RequestKey, None] = OrderedDict()

    def open(self, message: RpcMessage) -> str | None:
        """Keep a request until it is answered; return a problem, or None."""
        assert message.key is not None
        if message.key in self._open:
            return "the id is in use by another request"
        if len(self._open) >= self._max_open:
            return "too many requests wait for an answer"
        self._open[message.key] = OpenRequest(message.value["id"], message.method, message.params)
        return None

    def close(self, key: RequestKey | None) -> OpenRequest | None:
        """Close and return the request that is answered; None if there is none."""
        if key is None:
            return None
        self._cancelled.pop(key, None)
        return self._open.pop(key, None)

    def cancel(self, key: RequestKey | None) -> None:
        """Mark a request as cancelled; its answer may still come."""
        if key is None or key not in self._open:
            return
        self._cancelled[key] = None
        while len(self._cancelled) > _MAX_CANCELLED:
            oldest, _ = self._cancelled.popitem(last=False)
            del self._open[oldest]

    def drain(self) -> list[OpenRequest]:
        """Return the requests that are not cancelled, and forget all."""
        waiting = [asked for key, asked in self._open.items() if key not in self._cancelled]
        self._open.clear()
        self._cancelled.clear()
        return waiting
