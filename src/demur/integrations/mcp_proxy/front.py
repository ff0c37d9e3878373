"""The front for clients over streamable HTTP: an ASGI application with one address, `/mcp`.

A session begins by `initialize` and is named in a header from then on. Each request has its
answer as a stream of events; GET listens to what nobody asked for, DELETE ends the session.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from demur.errors import DemurError
from demur.integrations.mcp_proxy.headers import own_version
from demur.integrations.mcp_proxy.lines import LONGEST
from demur.integrations.mcp_proxy.message import (
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_GONE,
    Kind,
    Message,
    UnreadableError,
    encode,
    error_to,
    message_of,
    read,
)
from demur.integrations.mcp_proxy.place import read_headers, wrong_place
from demur.integrations.mcp_proxy.sessions import FullError, Session, Sessions
from demur.integrations.mcp_proxy.stream import Stream

__all__ = ["PATH", "Front"]

PATH = "/mcp"
_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
# Those that greet, and so have sessions: a newer client falls back to one of them.
_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_UNSUPPORTED_VERSION = -32022
_EVENTS = "text/event-stream"
_JSON = "application/json"
_NAME = re.compile(r"[\x21-\x7e]{1,200}")
_BODY_S = 30.0
_PAUSE_S = 15.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class _WrongError(DemurError):
    """A call that is not taken: with what status, and as what error of JSON-RPC."""

    def __init__(
        self, status: int, problem: str, *, code: int = INVALID_REQUEST, identity: Any = None
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.error = error_to(identity, code, problem)


class Front:
    """Takes calls for sessions. `hosts` are names that it answers to, beside those of loopback."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        hosts: Collection[str] = (),
        largest: int = LONGEST,
        body_s: float = _BODY_S,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._sessions = sessions
        self._hosts = frozenset(name.lower() for name in hosts)
        self._largest = largest
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
                await _answer(send, 204)
        except _WrongError as wrong:
            await _answer(send, wrong.status, wrong.error)

    def _checked(self, scope: Scope) -> dict[str, str]:
        """Return the headers of a call that is for us."""
        headers = read_headers(scope["headers"])
        if headers is None:
            raise _WrongError(400, "a header came twice")
        if wrong := wrong_place(headers, self._hosts):
            raise _WrongError(*wrong)
        if scope["path"] != PATH:
            raise _WrongError(404, f"there is nothing but `{PATH}`")
        if scope["method"] not in {"POST", "GET", "DELETE"}:
            raise _WrongError(405, "only POST, GET and DELETE")
        return headers

    def _known(self, headers: dict[str, str], identity: Any = None) -> Session:
        name = headers.get(_SESSION, "")
        if not _NAME.fullmatch(name):
            problem = f"the `{_SESSION}` header is missing: begin with `initialize`"
            raise _WrongError(400, problem, identity=identity)
        version = headers.get(_VERSION)
        if version is not None and version not in _VERSIONS:
            raise _unsupported(version, identity)
        session = self._sessions.find(name)
        if session is None:
            raise _WrongError(404, "there is no such session", identity=identity)
        return session

    async def _get(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        session = self._known(headers)
        if not _accepts(headers, _EVENTS):
            raise _WrongError(406, f"the answer is `{_EVENTS}`, which must be accepted")
        await self._speak(session, await session.client.listen(), receive, send)

    async def _post(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise _WrongError(415, f"the body must be `{_JSON}`")
        if not (_accepts(headers, _JSON) and _accepts(headers, _EVENTS)):
            raise _WrongError(406, f"`{_JSON}` and `{_EVENTS}` must be accepted")
        body = await self._body(headers, receive)
        # Line breaks of JSON stand between its tokens alone.
        line = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        message = _message(line)
        session = await self._session(headers, message)
        if message.kind is not Kind.REQUEST:
            await session.client.tell(line)
            await _answer(send, 202)
            return
        stream = await session.client.ask(line, message)
        if stream is None:
            problem = "the id is in use by another request"
            raise _WrongError(400, problem, identity=message.value["id"])
        await self._speak(session, stream, receive, send)
        if message.method == "initialize" and not session.client.greeted:
            self._sessions.end(session)

    async def _session(self, headers: dict[str, str], message: Message) -> Session:
        """Return the session of a message; a greeting begins one."""
        identity = message.value.get("id") if message.kind is Kind.REQUEST else None
        if _SESSION in headers:
            return self._known(headers, identity)
        if newer := own_version(message):
            # It would greet nobody, and each of its requests could be anybody's.
            raise _unsupported(newer, identity)
        if message.kind is not Kind.REQUEST or message.method != "initialize":
            return self._known(headers, identity)
        try:
            return await self._sessions.begin()
        except FullError as error:
            raise _WrongError(503, error.problem, code=SERVER_GONE, identity=identity) from error
        except DemurError as error:
            problem = "the server cannot be reached"
            raise _WrongError(502, problem, code=SERVER_GONE, identity=identity) from error

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        size = headers.get("content-length", "")
        if size.isdigit() and int(size[:20]) > self._largest:
            raise _too_large(self._largest)
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(self._body_s):
                while more:
                    part = await receive()
                    if part["type"] == "http.disconnect":
                        raise _WrongError(400, "the body broke off")
                    body += part.get("body", b"")
                    if len(body) > self._largest:
                        raise _too_large(self._largest)
                    more = part.get("more_body", False)
        except TimeoutError:
            raise _WrongError(408, "the body took too long") from None
        return bytes(body)

    async def _speak(self, session: Session, stream: Stream, receive: Receive, send: Send) -> None:
        """Write a stream of events until it ends, or nobody reads it any more."""
        gone = asyncio.create_task(_disconnected(receive))
        gone.add_done_callback(lambda _: stream.end())
        try:
            await _begin(send, 200, {"content-type": _EVENTS, _SESSION: session.identity})
            # Who listens need not wait for the first event to know that he does.
            await _write(send, b":\n\n")
            async for line in stream.lines(self._pause_s):
                await _write(send, b"event: message\ndata: %b\n\n" % line if line else b":\n\n")
            await _write(send, b"", more=False)
        finally:
            gone.cancel()
            session.client.forget(stream)
            self._sessions.find(session.identity)


def _message(line: bytes) -> Message:
    try:
        value = read(line)
    except UnreadableError as error:
        raise _WrongError(400, error.problem, code=PARSE_ERROR) from error
    try:
        return message_of(value)
    except UnreadableError as error:
        problem = "one message at a time" if isinstance(value, list) else error.problem
        raise _WrongError(400, problem) from error


def _unsupported(version: str, identity: Any) -> _WrongError:
    wrong = _WrongError(
        400, "the version of the protocol is not supported", code=_UNSUPPORTED_VERSION
    )
    wrong.error["id"] = identity
    wrong.error["error"]["data"] = {"supported": list(_VERSIONS), "requested": version[:100]}
    return wrong


def _too_large(largest: int) -> _WrongError:
    return _WrongError(413, f"a message has at most {largest} bytes")


def _accepts(headers: dict[str, str], kind: str) -> bool:
    listed = {one.partition(";")[0].strip().lower() for one in headers.get("accept", "").split(",")}
    return bool(listed & {kind, f"{kind.partition('/')[0]}/*", "*/*"})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _begin(send: Send, status: int, headers: dict[str, str]) -> None:
    own = {"cache-control": "no-store", "x-content-type-options": "nosniff", **headers}
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _write(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _answer(send: Send, status: int, error: dict[str, Any] | None = None) -> None:
    body = b"" if error is None else encode(error)
    headers = {"content-type": _JSON} if body else {}
    if status == 405:
        headers["allow"] = "POST, GET, DELETE"
    if status in {408, 413}:
        # Whoever still sends is not listened to.
        headers["connection"] = "close"
    if status != 204:
        headers["content-length"] = str(len(body))
    await _begin(send, status, headers)
    await _write(send, body, more=False)
