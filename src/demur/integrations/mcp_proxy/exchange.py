"""One ASGI call: read its body, write its response, and notice a disconnect."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from demur.errors import DemurError
from demur.integrations.mcp_proxy.message import INVALID_REQUEST, encode_message, error_response

__all__ = [
    "JSON",
    "ClientGoneError",
    "Receive",
    "Scope",
    "Send",
    "BadCallError",
    "send_response",
    "start_response",
    "wait_for_disconnect",
    "read_body",
    "run_unless_gone",
    "send_body",
]

JSON = "application/json"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_WorkResult = TypeVar("_WorkResult")


class BadCallError(DemurError):
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
        closes_connection: bool = False,
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.error = error_response(identity, code, problem)
        self.closes_connection = closes_connection


class ClientGoneError(DemurError):
    """The client has disconnected, so there is nobody to answer."""


async def read_body(
    receive: Receive, length: str, *, max_bytes: int, too_large: BadCallError, timeout_s: float
) -> bytes:
    """Return the body of a call.

    Raises:
        WrongError: It is too large, too slow or incomplete.
    """
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise too_large
    body = bytearray()
    more = True
    try:
        async with asyncio.timeout(timeout_s):
            while more:
                part = await receive()
                if part["type"] == "http.disconnect":
                    raise BadCallError(400, "the body is incomplete")
                body += part.get("body", b"")
                if len(body) > max_bytes:
                    raise too_large
                more = part.get("more_body", False)
    except TimeoutError:
        raise BadCallError(
            408, "the body was not received in time", closes_connection=True
        ) from None
    return bytes(body)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def run_unless_gone(
    work: Coroutine[Any, Any, _WorkResult], gone: asyncio.Task[None]
) -> _WorkResult:
    """Return the result of `work`, which is cancelled if the client disconnects.

    Raises:
        ClientGoneError: The client has disconnected.
    """
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError("the client has disconnected")
        return working.result()
    finally:
        working.cancel()


async def start_response(send: Send, status: int, headers: dict[str, str]) -> None:
    """Start a response."""
    own = {"cache-control": "no-store", "x-content-type-options": "nosniff", **headers}
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def send_body(send: Send, body: bytes, *, more: bool = True) -> None:
    """Send a part of the body."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def send_response(send: Send, status: int, error: BadCallError | None = None) -> None:
    """Send a complete response: empty, or an error."""
    body = b"" if error is None else encode_message(error.error)
    headers = {"content-type": JSON} if body else {}
    if status == 405:
        headers["allow"] = "POST, GET, DELETE"
    if error is not None and error.closes_connection:
        headers["connection"] = "close"
    if status != 204:
        headers["content-length"] = str(len(body))
    await start_response(send, status, headers)
    await send_body(send, body, more=False)
