"""The ASGI application for clients over streamable HTTP, at the path `/mcp`.

A session begins with `initialize` and is named in a header from then on. Each request is answered
by a stream of events; GET opens a stream of unsolicited messages or resumes a stream, DELETE ends
the session. Newer versions have no sessions: each request stands alone.
"""

import asyncio
import contextlib
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    MutableMapping,
)
from typing import Any, TypeVar

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.errors import DemurError
from demur.integrations.mcp_proxy.addressing import check_place, message_version, read_headers
from demur.integrations.mcp_proxy.sessions import (
    KEY_PREFIX,
    MAX_POSTS,
    EventStream,
    ProxySession,
    ProxySessions,
    ServerBusyError,
    TooManySessionsError,
)
from demur.integrations.mcp_proxy.stateless import (
    CANCELLED_METHOD,
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    UNSUPPORTED_VERSION,
    StatelessDownstream,
    answer_status,
    unsupported_version,
)
from demur.integrations.mcp_proxy.transport import MAX_MESSAGE_BYTES

JSON = "application/json"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_WorkResult = TypeVar("_WorkResult")


class HttpCallError(DemurError):
    """A rejected call: its HTTP status and JSON-RPC error.

    `closes_connection` ends the connection, so that the rest of the body need not be read.
    """

    def __init__(
        self,
        status: int,
        problem: str,
        *,
        code: int = rpc.INVALID_REQUEST,
        identity: Any = None,
        closes_connection: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.headers = headers or {}
        self.error = rpc.error_response(identity, code, problem)
        self.closes_connection = closes_connection


class ClientGoneError(DemurError):
    """The client has disconnected, so there is nobody to answer."""


async def read_body(
    receive: Receive, length: str, *, max_bytes: int, too_large: HttpCallError, timeout_s: float
) -> bytes:
    """Return the body of a call.

    Raises:
        HttpCallError: It is too large, too slow or incomplete.
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
                    raise HttpCallError(400, "the body is incomplete")
                body += part.get("body", b"")
                if len(body) > max_bytes:
                    raise too_large
                more = part.get("more_body", False)
    except TimeoutError:
        problem = "the body was not received in time"
        raise HttpCallError(408, problem, closes_connection=True) from None
    return bytes(body)


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


async def send_response(send: Send, status: int, error: HttpCallError | None = None) -> None:
    """Send a complete response: empty, or an error."""
    body = b"" if error is None else rpc.encode_message(error.error)
    headers = {"content-type": JSON} if body else {}
    headers |= {} if error is None else error.headers
    if status == 405:
        headers["allow"] = "POST, GET, DELETE"
    if error is not None and error.closes_connection:
        headers["connection"] = "close"
    if status != 204:
        headers["content-length"] = str(len(body))
    await start_response(send, status, headers)
    await send_body(send, body, more=False)


PATH = "/mcp"
_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_RESUME_HEADER = "last-event-id"
# Clients of this version understand events without data.
_RESUMABLE_VERSION = "2025-11-25"
_RETRY_MS = 500
_EVENT_STREAM = "text/event-stream"
_SESSION_NAME = re.compile(r"[\x21-\x7e]{1,200}")
# The largest body without a session: `initialize` messages are short.
_MAX_GREETING_BYTES = 65_536
_BODY_TIMEOUT_S = 30.0
_KEEP_ALIVE_S = 15.0


# Returns the id of the caller's key, or None for a caller that needs none; raises HttpCallError.
Authenticate = Callable[[Mapping[str, str], str], Awaitable[str | None]]


async def _admit_all(_headers: Mapping[str, str], _address: str) -> None:
    """Admit every caller."""


class McpHttpApp:
    """Dispatches calls to sessions. `hosts` are its host names beside loopback ones.

    `authenticate` gets the headers of a call and the address of its client.
    """

    def __init__(
        self,
        sessions: ProxySessions,
        *,
        authenticate: Authenticate = _admit_all,
        hosts: Collection[str] = (),
        max_bytes: int = MAX_MESSAGE_BYTES,
        max_greeting_bytes: int = _MAX_GREETING_BYTES,
        body_timeout_s: float = _BODY_TIMEOUT_S,
        keep_alive_s: float = _KEEP_ALIVE_S,
    ) -> None:
        self._sessions = sessions
        self._authenticate = authenticate
        self._server_is_older = False
        self._hosts = frozenset(name.lower() for name in hosts)
        self._max_bytes = max_bytes
        self._max_greeting_bytes = min(max_greeting_bytes, max_bytes)
        self._body_timeout_s = body_timeout_s
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        try:
            headers = self._check_call(scope)
            peer = scope.get("client")
            address = peer[0] if peer else ""
            key = await self._authenticate(headers, address)
            owner = address if key is None else f"{KEY_PREFIX}{key}"
            if scope["method"] == "POST":
                await self._handle_post(headers, receive, send, owner)
            elif scope["method"] == "GET":
                await self._handle_get(headers, receive, send, owner)
            else:
                self._sessions.end_session(self._require_session(headers, owner))
                await send_response(send, 204)
        except HttpCallError as error:
            await send_response(send, error.status, error)
        except ClientGoneError:
            pass

    def _check_call(self, scope: Scope) -> dict[str, str]:
        """Return the headers of a call, after checks of host, origin, path and method."""
        headers = read_headers(scope["headers"])
        if headers is None:
            raise HttpCallError(400, "duplicate header")
        if problem := check_place(headers, self._hosts):
            raise HttpCallError(*problem)
        if scope["path"] != PATH:
            raise HttpCallError(404, f"unknown path: the proxy serves only `{PATH}` is served")
        if scope["method"] not in {"POST", "GET", "DELETE"}:
            raise HttpCallError(405, "only POST, GET and DELETE")
        return headers

    def _find_session(self, name: str, owner: str) -> ProxySession | None:
        """Return a session; one that began with a key is found only with that key."""
        session = self._sessions.find_session(name)
        if session is None or isinstance(session.client, StatelessDownstream):
            return None
        keys = {one for one in (owner, session.owner) if one.startswith(KEY_PREFIX)}
        return session if not keys or owner == session.owner else None

    def _require_session(
        self, headers: dict[str, str], owner: str, identity: Any = None
    ) -> ProxySession:
        name = headers.get(_SESSION_HEADER, "")
        if not _SESSION_NAME.fullmatch(name):
            problem = f"the `{_SESSION_HEADER}` header is missing: begin with `initialize`"
            raise HttpCallError(400, problem, identity=identity)
        version = headers.get(_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_VERSIONS:
            raise _unsupported_version_error(version, identity)
        session = self._find_session(name, owner)
        if session is None:
            raise HttpCallError(404, "there is no such session", identity=identity)
        return session

    async def _handle_get(
        self, headers: dict[str, str], receive: Receive, send: Send, owner: str
    ) -> None:
        session = self._require_session(headers, owner)
        if not _accepts_type(headers, _EVENT_STREAM):
            raise HttpCallError(406, f"`{_EVENT_STREAM}` must be accepted")
        stream = None
        if event_id := headers.get(_RESUME_HEADER):
            stream = session.client.resume_stream(event_id)
        stream = stream or session.client.open_stream(resumable=_is_resumable(headers))
        async with _watch_disconnect(receive) as gone:
            await self._stream_events(session, stream, gone, send)

    async def _handle_post(
        self, headers: dict[str, str], receive: Receive, send: Send, owner: str
    ) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise HttpCallError(415, f"the body must be `{JSON}`")
        if not (_accepts_type(headers, JSON) and _accepts_type(headers, _EVENT_STREAM)):
            raise HttpCallError(406, f"`{JSON}` and `{_EVENT_STREAM}` must be accepted")
        version = headers.get(_VERSION_HEADER)
        newer = version is not None and version not in HANDSHAKE_VERSIONS
        known = (
            self._sessions.find_stateless(owner)
            if newer
            else self._find_session(headers.get(_SESSION_HEADER, ""), owner)
        )
        with contextlib.nullcontext(True) if known is None else known.count_post() as has_room:
            limited = (known is None and not newer) or not has_room
            body = await self._read_body(headers, receive, known, limited=limited)
            # In valid JSON, line breaks occur only between tokens.
            line = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
            message = _parse_body(line)
            if not has_room:
                raise _too_many_posts_error(_request_id(message))
            if newer or (known is None and message_version(message) is not None):
                await self._handle_stateless(headers, message, receive, send, owner)
                return
            session = await self._open_session(headers, message, owner)
            try:
                resumable = _is_resumable(headers)
                await self._hand_over(session, line, message, receive, send, resumable=resumable)
            except ServerBusyError as error:
                identity = _request_id(message)
                raise HttpCallError(
                    503, error.problem, code=rpc.SERVER_GONE, identity=identity
                ) from error
            finally:
                # Drop a new session whose handshake failed or was abandoned.
                if session is not known and not session.client.is_greeted:
                    self._sessions.end_session(session)

    async def _hand_over(
        self,
        session: ProxySession,
        line: bytes,
        message: rpc.RpcMessage,
        receive: Receive,
        send: Send,
        *,
        resumable: bool,
    ) -> None:
        """Pass a message to the session, and answer it."""
        async with _watch_disconnect(receive) as gone:
            if message.kind is not rpc.MessageKind.REQUEST:
                await run_unless_gone(session.client.post_line(line), gone)
                if message.method == CANCELLED_METHOD:
                    session.client.cancel_request(message.params.get("requestId"))
                await send_response(send, 202)
                return
            posting = session.client.post_request(line, message, resumable=resumable)
            stream = await run_unless_gone(posting, gone)
            if stream is None:
                problem = "the id is in use by another request"
                raise HttpCallError(400, problem, identity=_request_id(message))
            await self._stream_events(session, stream, gone, send)

    async def _open_session(
        self, headers: dict[str, str], message: rpc.RpcMessage, owner: str
    ) -> ProxySession:
        """Return the session of a message; `initialize` begins one for the client at `owner`."""
        identity = _request_id(message)
        is_greeting = message.kind is rpc.MessageKind.REQUEST and message.method == "initialize"
        if _SESSION_HEADER in headers or not is_greeting:
            return self._require_session(headers, owner, identity)
        return await _begin(self._sessions.begin_session(owner), identity)

    async def _handle_stateless(
        self,
        headers: dict[str, str],
        message: rpc.RpcMessage,
        receive: Receive,
        send: Send,
        owner: str,
    ) -> None:
        """Answer a message that belongs to no session."""
        identity, version = _request_id(message), message_version(message)
        if message.kind is not rpc.MessageKind.REQUEST:
            # A client cancels by hanging up, and answers nothing: both need an id of its own.
            await send_response(send, 202)
            return
        if self._server_is_older:
            raise _unsupported_version_error(version or headers[_VERSION_HEADER], identity)
        if version is None:
            problem = "the request does not name its protocol version in `_meta`"
            raise HttpCallError(400, problem, code=rpc.INVALID_PARAMS, identity=identity)
        if message.method == "initialize":
            # It would change the version of a server that others share.
            problem = "this protocol version has no handshake"
            raise HttpCallError(404, problem, code=rpc.METHOD_NOT_FOUND, identity=identity)
        sharing = self._sessions.share_session(owner, StatelessDownstream)
        session = await _begin(sharing, identity)
        client = session.client
        assert isinstance(client, StatelessDownstream)
        async with _watch_disconnect(receive) as gone:
            try:
                found = await run_unless_gone(client.find_mismatch(message, headers), gone)
                if found is not None:
                    problem = f"the `{found}` header does not fit the message"
                    raise HttpCallError(400, problem, code=HEADER_MISMATCH, identity=identity)
                stream = await run_unless_gone(client.post_request(b"", message), gone)
            except ServerBusyError as error:
                raise HttpCallError(
                    503, error.problem, code=rpc.SERVER_GONE, identity=identity
                ) from error
            assert stream is not None
            await self._answer_stateless(client, stream, gone, send)
        if client.is_older:
            self._server_is_older = True
            self._sessions.end_session(session)

    async def _answer_stateless(
        self,
        client: StatelessDownstream,
        stream: EventStream,
        gone: asyncio.Task[None],
        send: Send,
    ) -> None:
        """Send the answer alone, or a stream of events if there is more than that."""
        gone.add_done_callback(lambda task: None if task.cancelled() else client.abandon(stream))
        lines = stream.lines(self._keep_alive_s)
        try:
            first = await anext(lines, None)
            if first is None:
                return
            answer = rpc.parse_json(first) if first else {"method": ""}
            if "method" not in answer:
                headers = {"content-type": JSON, "content-length": str(len(first))}
                await start_response(send, answer_status(answer), headers)
                await send_body(send, first, more=False)
                return
            await start_response(send, 200, {"content-type": _EVENT_STREAM})
            await send_body(send, _format_event(first))
            async for line in lines:
                await send_body(send, _format_event(line))
            await send_body(send, b"", more=False)
        finally:
            client.forget_stream(stream)

    async def _read_body(
        self,
        headers: dict[str, str],
        receive: Receive,
        session: ProxySession | None,
        *,
        limited: bool,
    ) -> bytes:
        """Return the body; for rejected calls, read only enough for the request's id."""
        limit = self._max_greeting_bytes if limited else self._max_bytes
        if limited and session is not None:
            too_large = _too_many_posts_error(None)
        elif session is None and _SESSION_HEADER in headers:
            too_large = HttpCallError(404, "there is no such session")
        else:
            too_large = HttpCallError(413, f"the message must not exceed {limit} bytes")
        too_large.closes_connection = True
        length = headers.get("content-length", "")
        return await read_body(
            receive, length, max_bytes=limit, too_large=too_large, timeout_s=self._body_timeout_s
        )

    async def _stream_events(
        self, session: ProxySession, stream: EventStream, gone: asyncio.Task[None], send: Send
    ) -> None:
        """Send a stream of events until it ends, or the client disconnects."""
        lines = stream.lines(self._keep_alive_s)
        reader = stream.reader
        gone.add_done_callback(lambda task: None if task.cancelled() else stream.detach(reader))
        try:
            headers = {"content-type": _EVENT_STREAM, _SESSION_HEADER: session.session_id}
            await start_response(send, 200, headers)
            # Send the headers now, so that the client sees that the stream is open, and an id that
            # it can return with.
            is_new = stream.name and reader == 1
            first = f"id: {stream.name}-0\nretry: {_RETRY_MS}\ndata:\n\n" if is_new else ":\n\n"
            await send_body(send, first.encode())
            async for line in lines:
                event_id = f"id: {stream.name}-{stream.position}\n" if stream.name and line else ""
                await send_body(send, event_id.encode() + _format_event(line))
            await send_body(send, b"", more=False)
        finally:
            session.client.release_stream(stream, reader)
            self._sessions.find_session(session.session_id)


def _format_event(line: bytes) -> bytes:
    """Return a message as an event; an empty line is a comment that keeps the connection open."""
    return b"event: message\ndata: %b\n\n" % line if line else b":\n\n"


def _is_resumable(headers: Mapping[str, str]) -> bool:
    return headers.get(_VERSION_HEADER, "") >= _RESUMABLE_VERSION


async def _begin(beginning: Awaitable[ProxySession], identity: Any) -> ProxySession:
    """Return a session that begins.

    Raises:
        HttpCallError: There is no room, or the server cannot be reached.
    """
    try:
        return await beginning
    except TooManySessionsError as error:
        raise HttpCallError(503, error.problem, code=rpc.SERVER_GONE, identity=identity) from error
    except DemurError as error:
        problem = "the server cannot be reached"
        raise HttpCallError(502, problem, code=rpc.SERVER_GONE, identity=identity) from error


def _parse_body(line: bytes) -> rpc.RpcMessage:
    try:
        value = rpc.parse_json(line)
    except rpc.MessageError as error:
        raise HttpCallError(400, error.problem, code=rpc.PARSE_ERROR) from error
    try:
        return rpc.parse_message(value)
    except rpc.MessageError as error:
        problem = "one message at a time" if isinstance(value, list) else error.problem
        raise HttpCallError(400, problem) from error


def _unsupported_version_error(version: str, identity: Any) -> HttpCallError:
    error = HttpCallError(400, "unsupported protocol version", code=UNSUPPORTED_VERSION)
    error.error = unsupported_version(identity, version)
    return error


def _too_many_posts_error(identity: Any) -> HttpCallError:
    problem = f"a session may have at most {MAX_POSTS} open requests"
    return HttpCallError(503, problem, code=rpc.SERVER_GONE, identity=identity)


def _request_id(message: rpc.RpcMessage) -> Any:
    return message.value.get("id") if message.kind is rpc.MessageKind.REQUEST else None


def _accepts_type(headers: dict[str, str], kind: str) -> bool:
    listed = {one.partition(";")[0].strip().lower() for one in headers.get("accept", "").split(",")}
    return bool(listed & {kind, f"{kind.partition('/')[0]}/*", "*/*"})


@contextlib.asynccontextmanager
async def _watch_disconnect(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """Yield a task that ends when the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.create_task(wait_for_disconnect())
    try:
        yield gone
    finally:
        gone.cancel()
