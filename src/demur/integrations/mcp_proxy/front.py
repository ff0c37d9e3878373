"""The ASGI application for clients over streamable HTTP, at the path `/mcp`.

A session begins with `initialize` and is named in a header from then on. Each request is answered
by a stream of events; GET opens a stream of unsolicited messages, DELETE ends the session.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection
from typing import Any

from demur.errors import DemurError
from demur.integrations.mcp_proxy.exchange import (
    JSON,
    GoneError,
    Receive,
    Scope,
    Send,
    WrongError,
    answer,
    begin,
    disconnected,
    read_body,
    unless_gone,
    write,
)
from demur.integrations.mcp_proxy.headers import own_version
from demur.integrations.mcp_proxy.http_client import BusyError
from demur.integrations.mcp_proxy.lines import LONGEST
from demur.integrations.mcp_proxy.message import (
    PARSE_ERROR,
    SERVER_GONE,
    Kind,
    Message,
    UnreadableError,
    message_of,
    read,
)
from demur.integrations.mcp_proxy.place import read_headers, wrong_place
from demur.integrations.mcp_proxy.sessions import MOST_POSTS, FullError, Session, Sessions
from demur.integrations.mcp_proxy.stream import Stream

__all__ = ["PATH", "Front"]

PATH = "/mcp"
_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
# Versions with a handshake, and so with sessions; newer clients fall back to one of them.
_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_UNSUPPORTED_VERSION = -32022
_CANCELLED = "notifications/cancelled"
_EVENTS = "text/event-stream"
_NAME = re.compile(r"[\x21-\x7e]{1,200}")
# The largest body without a session: `initialize` messages are short.
_SMALL = 65_536
_BODY_S = 30.0
_PAUSE_S = 15.0


class Front:
    """Dispatches calls to sessions. `hosts` are its host names beside loopback ones."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        hosts: Collection[str] = (),
        largest: int = LONGEST,
        small: int = _SMALL,
        body_s: float = _BODY_S,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._sessions = sessions
        self._hosts = frozenset(name.lower() for name in hosts)
        self._largest = largest
        self._small = min(small, largest)
        self._body_s = body_s
        self._pause_s = pause_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        try:
            headers = self._checked(scope)
            if scope["method"] == "POST":
                await self._post(headers, receive, send)
            elif scope["method"] == "GET":
                await self._get(headers, receive, send)
            else:
                self._sessions.end(self._known(headers))
                await answer(send, 204)
        except WrongError as wrong:
            await answer(send, wrong.status, wrong)
        except GoneError:
            pass

    def _checked(self, scope: Scope) -> dict[str, str]:
        """Return the headers of a call, after checks of host, origin, path and method."""
        headers = read_headers(scope["headers"])
        if headers is None:
            raise WrongError(400, "duplicate header")
        if wrong := wrong_place(headers, self._hosts):
            raise WrongError(*wrong)
        if scope["path"] != PATH:
            raise WrongError(404, f"unknown path: only `{PATH}` is served")
        if scope["method"] not in {"POST", "GET", "DELETE"}:
            raise WrongError(405, "only POST, GET and DELETE")
        return headers

    def _known(self, headers: dict[str, str], identity: Any = None) -> Session:
        name = headers.get(_SESSION, "")
        if not _NAME.fullmatch(name):
            problem = f"the `{_SESSION}` header is missing: begin with `initialize`"
            raise WrongError(400, problem, identity=identity)
        version = headers.get(_VERSION)
        if version is not None and version not in _VERSIONS:
            raise _unsupported(version, identity)
        session = self._sessions.find(name)
        if session is None:
            raise WrongError(404, "there is no such session", identity=identity)
        return session

    async def _get(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        session = self._known(headers)
        if not _accepts(headers, _EVENTS):
            raise WrongError(406, f"`{_EVENTS}` must be accepted")
        async with _watched(receive) as gone:
            await self._speak(session, session.client.listen(), gone, send)

    async def _post(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise WrongError(415, f"the body must be `{JSON}`")
        if not (_accepts(headers, JSON) and _accepts(headers, _EVENTS)):
            raise WrongError(406, f"`{JSON}` and `{_EVENTS}` must be accepted")
        known = self._sessions.find(headers.get(_SESSION, ""))
        with contextlib.nullcontext(True) if known is None else known.posting() as has_room:
            body = await self._body(headers, receive, known, has_room=has_room)
            # In valid JSON, line breaks occur only between tokens.
            line = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
            message = _message(line)
            if not has_room:
                raise _crowded(_identity(message))
            session = await self._session(headers, message)
            try:
                await self._hand_over(session, line, message, receive, send)
            except BusyError as error:
                raise WrongError(
                    503, error.problem, code=SERVER_GONE, identity=_identity(message)
                ) from error
            finally:
                # Drop a new session whose handshake failed or was abandoned.
                if session is not known and not session.client.greeted:
                    self._sessions.end(session)

    async def _hand_over(
        self, session: Session, line: bytes, message: Message, receive: Receive, send: Send
    ) -> None:
        """Pass a message to the session, and answer it."""
        async with _watched(receive) as gone:
            if message.kind is not Kind.REQUEST:
                await unless_gone(session.client.tell(line), gone)
                if message.method == _CANCELLED:
                    session.client.cancel(message.params.get("requestId"))
                await answer(send, 202)
                return
            stream = await unless_gone(session.client.ask(line, message), gone)
            if stream is None:
                problem = "the id is in use by another request"
                raise WrongError(400, problem, identity=_identity(message))
            await self._speak(session, stream, gone, send)

    async def _session(self, headers: dict[str, str], message: Message) -> Session:
        """Return the session of a message; `initialize` begins one."""
        identity = _identity(message)
        if _SESSION in headers:
            return self._known(headers, identity)
        if newer := own_version(message):
            # The newer protocol has no sessions, so its requests could not be told apart.
            raise _unsupported(newer, identity)
        if message.kind is not Kind.REQUEST or message.method != "initialize":
            return self._known(headers, identity)
        try:
            return await self._sessions.begin()
        except FullError as error:
            raise WrongError(503, error.problem, code=SERVER_GONE, identity=identity) from error
        except DemurError as error:
            problem = "the server cannot be reached"
            raise WrongError(502, problem, code=SERVER_GONE, identity=identity) from error

    async def _body(
        self, headers: dict[str, str], receive: Receive, session: Session | None, *, has_room: bool
    ) -> bytes:
        """Return the body; for rejected calls, read only enough for the request's id."""
        largest = self._small if session is None or not has_room else self._largest
        too_large = WrongError(413, f"the message must not exceed {largest} bytes", closes=True)
        if not has_room:
            too_large = _crowded(None, closes=True)
        elif session is None and _SESSION in headers:
            too_large = WrongError(404, "there is no such session", closes=True)
        length = headers.get("content-length", "")
        return await read_body(
            receive, length, largest=largest, too_large=too_large, within_s=self._body_s
        )

    async def _speak(
        self, session: Session, stream: Stream, gone: asyncio.Task[None], send: Send
    ) -> None:
        """Send a stream of events until it ends, or the client disconnects."""
        gone.add_done_callback(lambda _: stream.end())
        try:
            await begin(send, 200, {"content-type": _EVENTS, _SESSION: session.identity})
            # Send the headers now, so that the client sees that the stream is open.
            await write(send, b":\n\n")
            async for line in stream.lines(self._pause_s):
                await write(send, b"event: message\ndata: %b\n\n" % line if line else b":\n\n")
            await write(send, b"", more=False)
        finally:
            session.client.forget(stream)
            self._sessions.find(session.identity)


def _message(line: bytes) -> Message:
    try:
        value = read(line)
    except UnreadableError as error:
        raise WrongError(400, error.problem, code=PARSE_ERROR) from error
    try:
        return message_of(value)
    except UnreadableError as error:
        problem = "one message at a time" if isinstance(value, list) else error.problem
        raise WrongError(400, problem) from error


def _unsupported(version: str, identity: Any) -> WrongError:
    wrong = WrongError(400, "unsupported protocol version", code=_UNSUPPORTED_VERSION)
    wrong.error["id"] = identity
    wrong.error["error"]["data"] = {"supported": list(_VERSIONS), "requested": version[:100]}
    return wrong


def _crowded(identity: Any, *, closes: bool = False) -> WrongError:
    problem = f"a session may have at most {MOST_POSTS} open requests"
    return WrongError(503, problem, code=SERVER_GONE, identity=identity, closes=closes)


def _identity(message: Message) -> Any:
    return message.value.get("id") if message.kind is Kind.REQUEST else None


def _accepts(headers: dict[str, str], kind: str) -> bool:
    listed = {one.partition(";")[0].strip().lower() for one in headers.get("accept", "").split(",")}
    return bool(listed & {kind, f"{kind.partition('/')[0]}/*", "*/*"})


@contextlib.asynccontextmanager
async def _watched(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """Yield a task that ends when the client disconnects."""
    gone = asyncio.create_task(disconnected(receive))
    try:
        yield gone
    finally:
        gone.cancel()
