"""One ASGI call: read its body, write its response, and notice a disconnect."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from demur.errors import DemurError
from demur.integrations.mcp_proxy.message import INVALID_REQUEST, encode, error_to

__all__ = [
    "JSON",
    "GoneError",
    "Receive",
    "Scope",
    "Send",
    "WrongError",
    "answer",
    "begin",
    "disconnected",
    "read_body",
    "unless_gone",
    "write",
]

JSON = "application/json"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Made = TypeVar("_Made")


class WrongError(DemurError):
    """A rejected call: its HTTP status and JSON-RPC error.

    `closes_connection` ends the connection, so that the rest of the body need not be read.
    """

    def __init__(
        self,
        status: int,
        problem: str,
        *,
        code: int = INVALID_REQUEST,
        identity: Any = None,
        closes: bool = False,
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.error = error_to(identity, code, problem)
        self.closes = closes


class GoneError(DemurError):
    """The client has disconnected, so there is nobody to answer."""


async def read_body(
    receive: Receive, length: str, *, largest: int, too_large: WrongError, within_s: float
) -> bytes:
    """Return the body of a call.

    Raises:
        WrongError: It is too large, too slow or incomplete.
    """
    if length.isdigit() and int(length[:20]) > largest:
        raise too_large
    body = bytearray()
    more = True
    try:
        async with asyncio.timeout(within_s):
            while more:
                part = await receive()
                if part["type"] == "http.disconnect":
                    raise WrongError(400, "the body is incomplete")
                body += part.get("body", b"")
                if len(body) > largest:
                    raise too_large
                more = part.get("more_body", False)
    except TimeoutError:
        raise WrongError(408, "the body was not received in time", closes=True) from None
    return bytes(body)


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(work: Coroutine[Any, Any, _Made], gone: asyncio.Task[None]) -> _Made:
    """Return the result of `work`, which is cancelled if the client disconnects.

    Raises:
        ClientGoneError: The client has disconnected.
    """
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise GoneError("the client has disconnected")
        return working.result()
    finally:
        working.cancel()


async def begin(send: Send, status: int, headers: dict[str, str]) -> None:
    """Start a response."""
    own = {"cache-control": "no-store", "x-content-type-options": "nosniff", **headers}
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def write(send: Send, body: bytes, *, more: bool = True) -> None:
    """Send a part of the body."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def answer(send: Send, status: int, wrong: WrongError | None = None) -> None:
    """Send a complete response: empty, or an error."""
    body = b"" if wrong is None else encode(wrong.error)
    headers = {"content-type": JSON} if body else {}
    if status == 405:
        headers["allow"] = "POST, GET, DELETE"
    if wrong is not None and wrong.closes:
        headers["connection"] = "close"
    if status != 204:
        headers["content-length"] = str(len(body))
    await begin(send, status, headers)
    await write(send, body, more=False)
