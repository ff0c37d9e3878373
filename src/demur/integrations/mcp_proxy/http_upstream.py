"""An MCP server over streamable HTTP: each message is a POST of its own.

Answers come as JSON or as server-sent events; unsolicited messages come on a stream that is held
open. Redirects are not followed: the proxy talks only to the server that was named.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.integrations._kit import missing_extra
from demur.integrations.mcp_proxy.addressing import (
    PLAIN_HEADER,
    DeclaredHeaders,
    message_headers,
    message_version,
)
from demur.integrations.mcp_proxy.transport import MAX_MESSAGE_BYTES

_RECONNECT_S = 1.0
_MAX_RECONNECT_S = 30.0


class EventSplitter:
    """Splits data into events; an event that is too long becomes None.

    Comments, priming events and events of another name than `message` are skipped. `last_id` is
    the id of the last event, and `retry_s` says when to return for the next one.
    """

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""
        self._id = b""
        self.last_id = b""
        self.retry_s = _RECONNECT_S
        self._after_return = False

    def begin(self) -> None:
        """Begin a new stream: forget an event that was not completed."""
        self._rest.clear()
        self._data.clear()
        self._size = 0
        self._name, self._id = b"", self.last_id
        self._after_return = False

    def feed(self, piece: bytes) -> list[bytes | None]:
        """Return the data of the events that `piece` completes."""
        # A line ends with CR, LF or both; a pair may be split between two pieces.
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        done: list[bytes | None] = []
        *ended, last = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in ended:
            self._append_part(part)
            self._handle_line(bytes(self._rest), done)
            self._rest.clear()
        self._append_part(last)
        return done

    def _append_part(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._data.clear()
        else:
            self._rest += part

    def _handle_line(self, line: bytes, done: list[bytes | None]) -> None:
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data" and self._size <= self._max_bytes:
                self._data.append(value)
            elif name == b"event":
                self._name = value
            elif name == b"id" and PLAIN_HEADER.fullmatch(value.decode("latin-1")):
                self._id = value
            elif name == b"retry" and value.isdigit():
                self.retry_s = min(int(value[:9]) / 1000, _MAX_RECONNECT_S)
            return
        self.last_id = self._id
        if self._size > self._max_bytes:
            # The skipped part may contain blank lines; resume at the next one.
            done.append(None)
        elif any(self._data) and self._name in {b"", b"message"}:
            # In JSON a line break between tokens equals a blank.
            done.append(b" ".join(self._data))
        self._data.clear()
        self._size = 0
        self._name = b""


try:
    import httpx
except ImportError as error:
    raise missing_extra("mcp-proxy", "httpx") from error


# How long closing waits for open answers, and how long a notification may delay the next post.
HTTP_GRACE_S = 2.0

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_EVENT_STREAM = "text/event-stream"
_HEADERS = {
    "accept": f"application/json, {_EVENT_STREAM}",
    "content-type": "application/json",
}
_INITIALIZE = "initialize"
_CANCELLED_METHOD = "notifications/cancelled"
_TIMEOUT = httpx.Timeout(30.0, read=None)
# Notifications have no answer, so reading has a timeout, too.
_NOTIFICATION_TIMEOUT = httpx.Timeout(30.0)
_RESUME_HEADER = "last-event-id"
_ANSWER_TOO_LONG = "the answer of the server is too long"
_MAX_TRIES = 5
_OK = 200
_NOT_FOUND = 404
# Backpressure: how many messages may wait for the relay.
_MAX_WAITING = 64


class HttpUpstream:
    """The server at a URL. `headers` are sent with every request, for example to authenticate."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
        grace_s: float = HTTP_GRACE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._max_bytes = max_bytes
        self._grace_s = grace_s
        self._http = httpx.AsyncClient(
            headers=dict(headers or {}), timeout=_TIMEOUT, transport=transport
        )
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
        self.on_pause: Callable[[rpc.RequestKey], None] | None = None
        self._is_closed = self._is_lost = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Task[None] | None = None
        self._modern: dict[rpc.RequestKey, asyncio.Task[None]] = {}
        self._session: str | None = None
        self._version: str | None = None
        self._declared = DeclaredHeaders()

    async def send(self, line: bytes) -> None:
        """Post a message; the answer to a request is read in a task of its own."""
        value = rpc.parse_json(line)
        asks = [one for one in _parse_messages(value) if one.kind is rpc.MessageKind.REQUEST]
        if asks:
            task = self._start_task(self._post_message(line, value, asks))
            if len(asks) == 1 and message_version(asks[0]) and asks[0].key is not None:
                self._modern[asks[0].key] = task
            return
        if self._cancel_request(value):
            return
        # Keep the order of notifications, but let a slow server delay the next one only briefly.
        posted = self._start_task(self._post_message(line, value, asks))
        await asyncio.wait({posted}, timeout=self._grace_s)
        if any(one.method == "notifications/initialized" for one in _parse_messages(value)):
            self._listener = self._start_task(self._listen_unasked())

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the server's messages, until it is closed or has lost the session."""
        while not (self._is_closed or self._is_lost) or not self._received.empty():
            line = await self._received.get()
            if line is not None:
                yield line

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
                await self._http.delete(self._url, headers=self._request_headers(), timeout=5)
        await self._http.aclose()
        self._is_closed = True
        self._wake_reader()
        # An HTTP server has no exit status, so closing it always succeeds.
        return 0

    def _wake_reader(self) -> None:
        # A full queue wakes the reader anyway.
        with contextlib.suppress(asyncio.QueueFull):
            self._received.put_nowait(None)

    def _start_task(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _cancel_request(self, value: Any) -> bool:
        """Cancel a request by closing its connection, as newer servers expect; return if so."""
        for one in _parse_messages(value):
            if one.method == _CANCELLED_METHOD:
                key = rpc.request_key(one.params.get("requestId"))
                task = None if key is None else self._modern.pop(key, None)
                if task is not None:
                    task.cancel()
                    return True
        return False

    def _request_headers(self, message: rpc.RpcMessage | None = None) -> dict[str, str]:
        headers = dict(_HEADERS)
        if message is not None and (own := message_version(message)):
            declared = self._declared.headers_for(message)
            return {**headers, _VERSION_HEADER: own, **message_headers(message), **declared}
        greets = message is not None and message.method == _INITIALIZE
        if self._session is not None and not greets:
            headers[_SESSION_HEADER] = self._session
        if self._version is not None and not greets:
            headers[_VERSION_HEADER] = self._version
        return headers

    async def _post_message(self, line: bytes, value: Any, asks: list[rpc.RpcMessage]) -> None:
        """Post a message, and make sure that each request in it gets an answer."""
        waiting = {one.key: one for one in asks if one.key is not None}
        first = next(iter(_parse_messages(value)), None)
        problem = "the server closed the connection without an answer"
        headers = self._request_headers(first)
        is_lost = False
        events = EventSplitter(self._max_bytes)
        try:
            async with self._http.stream(
                "POST",
                self._url,
                content=line,
                headers=headers,
                timeout=_TIMEOUT if waiting else _NOTIFICATION_TIMEOUT,
            ) as response:
                session = response.headers.get(_SESSION_HEADER)
                # Ignore session ids that cannot be sent back as a header.
                if session and PLAIN_HEADER.fullmatch(session):
                    self._session = session
                elif any(one.method == _INITIALIZE for one in asks) and response.is_success:
                    self._session = None
                is_lost = response.status_code == _NOT_FOUND and _SESSION_HEADER in headers
                problem = await self._read_response(response, waiting, events) or problem
        # ValueError: a header value that cannot be encoded.
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as failure:
            problem = f"the server cannot be reached: {type(failure).__name__}"
        await self._resume(waiting, events)
        for key, one in waiting.items():
            error = rpc.error_response(one.value["id"], rpc.SERVER_GONE, problem)
            await self._received.put(rpc.encode_message(error))
            self._modern.pop(key, None)
        if is_lost and headers[_SESSION_HEADER] == self._session:
            # Only a new handshake could help.
            self._session = None
            self._is_lost = True
            self._wake_reader()

    async def _resume(
        self, waiting: dict[rpc.RequestKey, rpc.RpcMessage], events: EventSplitter
    ) -> None:
        """Return to a stream that ended before the answer, if its events have ids."""
        tries = 0
        while waiting and events.last_id and tries < _MAX_TRIES:
            tries += 1
            if self.on_pause is not None:
                for key in waiting:
                    self.on_pause(key)
            await asyncio.sleep(events.retry_s)
            last = events.last_id
            headers = {**self._request_headers(), _RESUME_HEADER: last.decode("latin-1")}
            headers["accept"] = _EVENT_STREAM
            with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    if not _is_stream(response) or response.status_code != _OK:
                        return
                    await self._read_response(response, waiting, events)
            tries = tries if events.last_id == last else 0

    async def _read_response(
        self,
        response: httpx.Response,
        waiting: dict[rpc.RequestKey, rpc.RpcMessage],
        events: EventSplitter,
    ) -> str | None:
        """Queue the messages of a response; return a problem, if there is one."""
        if _is_stream(response) and response.status_code == _OK:
            async for line in _read_events(response, events):
                if line is None:
                    events.last_id = b""
                    return _ANSWER_TOO_LONG
                await self._handle_line(line, waiting)
                if not waiting:
                    break
            return None
        body = await self._read_body(response)
        if response.status_code >= 300:
            # An error in the body answers the requests.
            with contextlib.suppress(rpc.MessageError):
                value = rpc.parse_json(body or b"")
                if isinstance(value, dict) and isinstance(value.get("error"), dict):
                    for one in list(waiting.values()):
                        answer = {"jsonrpc": "2.0", "id": one.value["id"], "error": value["error"]}
                        await self._handle_line(rpc.encode_message(answer), waiting)
            return f"the server answered with HTTP status {response.status_code}"
        if body is None:
            return _ANSWER_TOO_LONG
        if body:
            await self._handle_line(body, waiting)
        return None if response.status_code == _OK else "the server gave no answer"

    async def _read_body(self, response: httpx.Response) -> bytes | None:
        """Return the body in one line, or None if it is too long."""
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._max_bytes:
                return None
        return bytes(body).replace(b"\r", b" ").replace(b"\n", b" ").strip()

    async def _handle_line(
        self, line: bytes, waiting: dict[rpc.RequestKey, rpc.RpcMessage]
    ) -> None:
        """Queue a message, and mark the request that it answers."""
        with contextlib.suppress(rpc.MessageError):
            for one in _parse_messages(rpc.parse_json(line)):
                if one.kind is rpc.MessageKind.RESPONSE and one.key is not None:
                    self._modern.pop(one.key, None)
                    self._learn_from_answer(waiting.pop(one.key, None), one)
        await self._received.put(line)

    def _learn_from_answer(self, request: rpc.RpcMessage | None, answer: rpc.RpcMessage) -> None:
        """Learn the protocol version and declared headers from an answer."""
        result = answer.value.get("result")
        if request is not None and request.method == _INITIALIZE:
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            if isinstance(version, str) and PLAIN_HEADER.fullmatch(version):
                self._version = version
        elif request is not None and request.method == "tools/list":
            self._declared.learn_tools(result)

    async def _listen_unasked(self) -> None:
        """Read unsolicited messages, as long as the server offers a stream for them."""
        tries = 0
        events = EventSplitter(self._max_bytes)
        while tries < _MAX_TRIES:
            headers = {**self._request_headers(), "accept": _EVENT_STREAM}
            if events.last_id:
                headers[_RESUME_HEADER] = events.last_id.decode("latin-1")
            try:
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != _OK or not _is_stream(response):
                        return
                    async for line in _read_events(response, events):
                        tries = 0
                        # No answers come here, so dropping a message leaves no request open.
                        if line is not None:
                            await self._handle_line(line, {})
            except httpx.HTTPError:
                pass
            tries += 1
            await asyncio.sleep(events.retry_s)


def _parse_messages(value: Any) -> list[rpc.RpcMessage]:
    """Return the messages in a value, which may be a batch."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        with contextlib.suppress(rpc.MessageError):
            found.append(rpc.parse_message(one))
    return found


async def _read_events(
    response: httpx.Response, events: EventSplitter
) -> AsyncIterator[bytes | None]:
    events.begin()
    async for piece in response.aiter_bytes():
        for line in events.feed(piece):
            yield line


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith(_EVENT_STREAM)
