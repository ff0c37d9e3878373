"""A server that is reached over streamable HTTP: each message is a POST of its own.

Answers come as JSON or as a stream of events; what the server says unasked comes on a stream
that is held open for it. Redirects are not followed: who was named is who is spoken to.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from demur.integrations.extras import missing_extra
from demur.integrations.mcp_proxy.events import Events
from demur.integrations.mcp_proxy.headers import (
    PLAIN,
    DeclaredHeaders,
    own_headers,
    own_version,
)
from demur.integrations.mcp_proxy.lines import LONGEST
from demur.integrations.mcp_proxy.message import (
    SERVER_GONE,
    Key,
    Kind,
    Message,
    UnreadableError,
    encode,
    error_to,
    key_of,
    message_of,
    read,
)

try:
    import httpx
except ImportError as error:
    raise missing_extra("mcp-proxy", "httpx") from error

__all__ = ["GRACE_S", "HttpServer"]

# How long closing waits for open answers, and how long a notification may delay the next post.
GRACE_S = 2.0

_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_GREETING = "initialize"
_CANCELLED = "notifications/cancelled"
_TIMEOUT = httpx.Timeout(30.0, read=None)
# Notifications have no answer, so reading has a timeout, too.
_TOLD = httpx.Timeout(30.0)
_TOO_LONG = "the answer of the server is too long"
_PAUSE_S = 1.0
_MOST_TRIES = 5
_ENOUGH = 200
_NOT_FOUND = 404
# Backpressure: how many messages may wait for the relay.
_MOST_WAITING = 64
# An HTTP server has no exit status, so closing it always succeeds.
_WELL = 0


class HttpServer:
    """The server at a URL. `headers` are sent with every request, for example to authenticate."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        longest: int = LONGEST,
        grace_s: float = GRACE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._longest = longest
        self._grace_s = grace_s
        self._http = httpx.AsyncClient(
            headers=dict(headers or {}), timeout=_TIMEOUT, transport=transport
        )
        self._said: asyncio.Queue[tuple[bytes] | None] = asyncio.Queue(_MOST_WAITING)
        self._closed = self._lost = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Task[None] | None = None
        self._modern: dict[Key, asyncio.Task[None]] = {}
        self._session: str | None = None
        self._version: str | None = None
        self._declared = DeclaredHeaders()

    async def send(self, line: bytes) -> None:
        """Post a message; the answer to a request is read in a task of its own."""
        value = read(line)
        asks = [one for one in _messages(value) if one.kind is Kind.REQUEST]
        if asks:
            task = self._beside(self._post(line, value, asks))
            if len(asks) == 1 and own_version(asks[0]) and asks[0].key is not None:
                self._modern[asks[0].key] = task
            return
        if self._is_cancelled(value):
            return
        # Keep the order of notifications, but let a slow server delay the next one only briefly.
        told = self._beside(self._post(line, value, asks))
        await asyncio.wait({told}, timeout=self._grace_s)
        if any(one.method == "notifications/initialized" for one in _messages(value)):
            self._listener = self._beside(self._listen())

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the server's messages, until it is closed or has lost the session."""
        while not (self._closed or self._lost) or not self._said.empty():
            said = await self._said.get()
            if said is not None:
                yield said[0]

    async def close(self) -> int:
        """Wait briefly for open answers, and end the session."""
        posts = self._tasks - {self._listener}
        if posts:
            await asyncio.wait(posts, timeout=self._grace_s)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            with contextlib.suppress(httpx.HTTPError):
                await self._http.delete(self._url, headers=self._headers(), timeout=5)
        await self._http.aclose()
        self._closed = True
        self._wake()
        return _WELL

    def _wake(self) -> None:
        # A full queue wakes the reader anyway.
        with contextlib.suppress(asyncio.QueueFull):
            self._said.put_nowait(None)

    def _forgotten(self) -> None:
        """Mark the session as lost: only a new handshake could help."""
        self._session = None
        self._lost = True
        self._wake()

    def _beside(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _is_cancelled(self, value: Any) -> bool:
        """Cancel a request by closing its connection, as newer servers expect; return if so."""
        for one in _messages(value):
            if one.method == _CANCELLED:
                from_request = key_of(one.params.get("requestId"))
                task = None if from_request is None else self._modern.pop(from_request, None)
                if task is not None:
                    task.cancel()
                    return True
        return False

    def _headers(self, message: Message | None = None) -> dict[str, str]:
        headers = dict(_ACCEPT)
        greets = message is not None and message.method == _GREETING
        if self._session is not None and not greets:
            headers[_SESSION] = self._session
        version = self._version
        if message is not None and (own := own_version(message)):
            version = own
            headers |= own_headers(message) | self._declared.of(message)
        if version is not None and not greets:
            headers[_VERSION] = version
        return headers

    async def _post(self, line: bytes, value: Any, asks: list[Message]) -> None:
        """Post a message, and make sure that each request in it gets an answer."""
        waiting: dict[Key, Message] = {one.key: one for one in asks if one.key is not None}
        first = next(iter(_messages(value)), None)
        problem = "the server closed the connection without an answer"
        headers = self._headers(first)
        is_lost = False
        try:
            async with self._http.stream(
                "POST",
                self._url,
                content=line,
                headers=headers,
                timeout=_TIMEOUT if waiting else _TOLD,
            ) as response:
                session = response.headers.get(_SESSION)
                # Ignore session ids that cannot be sent back as a header.
                if session and PLAIN.fullmatch(session):
                    self._session = session
                elif any(one.method == _GREETING for one in asks) and response.is_success:
                    self._session = None
                is_lost = response.status_code == _NOT_FOUND and _SESSION in headers
                problem = await self._answer(response, waiting) or problem
        # ValueError: a header value that cannot be encoded.
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            problem = f"the server cannot be reached: {type(error).__name__}"
        for key, one in waiting.items():
            await self._say(encode(error_to(one.value["id"], SERVER_GONE, problem)))
            self._modern.pop(key, None)
        if is_lost and headers[_SESSION] == self._session:
            self._forgotten()

    async def _answer(self, response: httpx.Response, waiting: dict[Key, Message]) -> str | None:
        """Queue the messages of a response; return a problem, if there is one."""
        if _is_stream(response) and response.status_code == _ENOUGH:
            async for said in self._events(response):
                if said is None:
                    return _TOO_LONG
                await self._heard(said, waiting)
                if not waiting:
                    break
            return None
        body = await self._body(response)
        if response.status_code >= 300:
            return await self._failed(response, body, waiting)
        if body is None:
            return _TOO_LONG
        if body:
            await self._heard(body, waiting)
        return None if response.status_code == _ENOUGH else "the server gave no answer"

    async def _failed(
        self, response: httpx.Response, body: bytes | None, waiting: dict[Key, Message]
    ) -> str:
        """Return the problem of an error status; an error in the body answers the requests."""
        with contextlib.suppress(UnreadableError):
            value = read(body or b"")
            if isinstance(value, dict) and isinstance(value.get("error"), dict):
                for one in list(waiting.values()):
                    answer = {"jsonrpc": "2.0", "id": one.value["id"], "error": value["error"]}
                    await self._heard(encode(answer), waiting)
        return f"the server answered with HTTP status {response.status_code}"

    async def _body(self, response: httpx.Response) -> bytes | None:
        """Return the body in one line, or None if it is too long."""
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._longest:
                return None
        return bytes(body).replace(b"\r", b" ").replace(b"\n", b" ").strip()

    async def _events(self, response: httpx.Response) -> AsyncIterator[bytes | None]:
        events = Events(self._longest)
        async for piece in response.aiter_bytes():
            for said in events.feed(piece):
                yield said

    async def _heard(self, line: bytes, waiting: dict[Key, Message]) -> None:
        """Queue a message, and mark the request that it answers."""
        with contextlib.suppress(UnreadableError):
            for one in _messages(read(line)):
                if one.kind is Kind.RESPONSE and one.key is not None:
                    asked = waiting.pop(one.key, None)
                    self._modern.pop(one.key, None)
                    self._learned(asked, one)
        await self._say(line)

    def _learned(self, asked: Message | None, answer: Message) -> None:
        """Learn the protocol version and declared headers from an answer."""
        result = answer.value.get("result")
        if asked is not None and asked.method == _GREETING:
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            if isinstance(version, str) and PLAIN.fullmatch(version):
                self._version = version
        elif asked is not None and asked.method == "tools/list":
            self._declared.learn(result)

    async def _listen(self) -> None:
        """Read unsolicited messages, as long as the server offers a stream for them."""
        tries = 0
        while tries < _MOST_TRIES:
            headers = {**self._headers(), "accept": "text/event-stream"}
            try:
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != _ENOUGH or not _is_stream(response):
                        return
                    async for said in self._events(response):
                        tries = 0
                        # No answers come here, so dropping a message leaves no request open.
                        if said is not None:
                            await self._heard(said, {})
            except httpx.HTTPError:
                pass
            tries += 1
            await asyncio.sleep(_PAUSE_S)

    async def _say(self, line: bytes) -> None:
        await self._said.put((line,))


def _messages(value: Any) -> list[Message]:
    """Return the messages in a value, which may be a batch."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        with contextlib.suppress(UnreadableError):
            found.append(message_of(one))
    return found


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("text/event-stream")
