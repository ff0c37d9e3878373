"""The guard of an MCP connection: a message in, the messages out that may pass or answer it.

It knows JSON-RPC and no transport. What it does not know passes as it came, if nothing speaks
against its words, so that new methods and versions need nothing new here; what can be read in
two ways passes nowhere.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from demur.emit.mcp_denial import to_mcp_denial
from demur.integrations.mcp_proxy.answers import CALL, refusal_to
from demur.integrations.mcp_proxy.judge import Judge
from demur.integrations.mcp_proxy.listing import Listing, Note
from demur.integrations.mcp_proxy.message import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_GONE,
    UNREADABLE,
    Kind,
    Message,
    UnreadableError,
    encode,
    error_to,
    key_of,
    look_alikes,
    message_of,
    read,
)
from demur.integrations.mcp_proxy.open_requests import Asked, OpenRequests
from demur.integrations.mcp_proxy.passing import Passing
from demur.integrations.mcp_proxy.unread import loosely

__all__ = ["Guard", "Out"]

_CANCELLED = "notifications/cancelled"
_CALL_PARTS = frozenset({"name", "arguments", "_meta", "task"})
# Characters that some readers take for a line break.
_BREAKS = re.compile(rb"[\r\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")


class Out(NamedTuple):
    """The output: lines for the client, and lines for the server."""

    to_client: tuple[bytes, ...] = ()
    to_server: tuple[bytes, ...] = ()


class _Sent(NamedTuple):
    """What happens to one message: `on` is forwarded, `back` is sent to its sender."""

    on: Any = None
    back: Any = None


_DROPPED = _Sent()


class Guard:
    """Guards one connection. Each side's messages are passed in order, one at a time.

    `notify` gets one line for each message that was refused, hidden or dropped. `hard_as_error`
    answers a hard refusal with a JSON-RPC error instead of a result.
    """

    def __init__(self, judge: Judge, *, note: Note, hard_as_error: bool = False) -> None:
        self._judge = judge
        self._note = note
        self._hard_as_error = hard_as_error
        self._listing = Listing(judge, note)
        self._passing = Passing(judge, self._listing, note, hard_as_error=hard_as_error)
        self._of_client = OpenRequests()
        self._of_server = OpenRequests()

    async def from_client(self, raw: bytes | None) -> Out:
        """Return the output for a line of the client; None is a line that was too long."""
        try:
            value = _read(raw)
        except UnreadableError as error:
            lost = [self._lost(one, error.problem, self._of_server) for one in loosely(raw or b"")]
            if _DROPPED in lost or not lost:
                lost.append(_Sent(back=error_to(None, PARSE_ERROR, error.problem)))
            return Out(_each(one.back for one in lost), _each(one.on for one in lost))
        if value == []:
            return Out(to_client=(encode(error_to(None, INVALID_REQUEST, "an empty batch")),))
        on, back = [], []
        for one in value if isinstance(value, list) else [value]:
            try:
                sent = await self._asked(message_of(one))
            except UnreadableError as error:
                sent = self._lost(one, error.problem, self._of_server)
                if sent is _DROPPED:
                    sent = _Sent(back=error_to(_identity(one), INVALID_REQUEST, error.problem))
            on.append(sent.on)
            back.append(sent.back)
        return Out(_lines(value, back), _lines(value, on, raw))

    async def from_server(self, raw: bytes | None) -> Out:
        """Return the output for a line of the server; None is a line that was too long."""
        # INVARIANT: no unreadable message passes from the server to the client.
        try:
            value = _read(raw)
        except UnreadableError as error:
            self._note(f"dropped a line of the server: {error.problem}")
            if raw is None:
                # The request that it answers is unknown, so all open requests fail.
                return Out(self.ended("an answer of the server was too long"))
            lost = [self._lost(one, error.problem, self._of_client) for one in loosely(raw)]
            return Out(_each(one.on for one in lost), _each(one.back for one in lost))
        on, back = [], []
        for one in value if isinstance(value, list) else [value]:
            try:
                sent = await self._answered(message_of(one))
            except UnreadableError as error:
                self._note(f"dropped a message of the server: {error.problem}")
                sent = self._lost(one, error.problem, self._of_client)
            on.append(sent.on)
            back.append(sent.back)
        return Out(_lines(value, on, raw), _lines(value, back))

    def ended(self, reason: str) -> tuple[bytes, ...]:
        """Return an error for every open request of the client."""
        return tuple(
            encode(error_to(asked.identity, SERVER_GONE, reason))
            for asked in self._of_client.drain()
        )

    @staticmethod
    def _lost(one: Any, problem: str, waiting: OpenRequests) -> _Sent:
        """Return an error for the peer that waits for an unreadable message, or that sent it.

        Otherwise it would wait for ever.
        """
        identity = _identity(one)
        if identity is None:
            return _DROPPED
        if "method" in one:
            return _Sent(back=error_to(identity, INVALID_REQUEST, problem))
        asked = waiting.close(key_of(identity))
        if asked is None:
            return _DROPPED
        return _Sent(
            on=error_to(asked.identity, UNREADABLE, f"the answer cannot be read: {problem}")
        )

    # Messages of the client.

    async def _asked(self, message: Message) -> _Sent:
        if message.kind is Kind.REQUEST:
            return await self._requested(message)
        if message.kind is Kind.RESPONSE and self._of_server.close(message.key) is None:
            self._note("dropped an unsolicited answer of the client")
            return _DROPPED
        if message.method.strip().casefold() == CALL:
            # Without an id it cannot be answered.
            self._note("dropped a tool call without an id")
            return _DROPPED
        if message.method == _CANCELLED:
            self._of_client.cancel(key_of(message.params.get("requestId")))
        return _Sent(on=message.value)

    async def _requested(self, message: Message) -> _Sent:
        if message.method != CALL and message.method.strip().casefold() == CALL:
            # A server that ignores case in names must not be a way around the guard.
            return _Sent(back=error_to(message.value["id"], INVALID_REQUEST, "no such method"))
        if problem := self._of_client.open(message):
            return _Sent(back=error_to(message.value["id"], INVALID_REQUEST, problem))
        back = await self._refused_call(message) if message.method == CALL else None
        # INVARIANT: a tool call that is refused never reaches the server.
        if back is None:
            return _Sent(on=message.value)
        # If it was closed meanwhile, the client already has an error.
        return _DROPPED if self._of_client.close(message.key) is None else _Sent(back=back)

    async def _refused_call(self, message: Message) -> dict[str, Any] | None:
        """Return the response to a refused call, or None if it is allowed."""
        identity, params = message.value["id"], message.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            problem = "a call has the `name` of a tool, and `arguments` that are an object"
            return error_to(identity, INVALID_PARAMS, problem)
        if look_alikes(params, _CALL_PARTS):
            problem = "a parameter of the call differs from a known one only in case"
            return error_to(identity, INVALID_PARAMS, problem)
        known = self._listing.tool(name)
        ruling = await self._judge.call(name, arguments or {}, known, identity)
        if ruling.allowed:
            return None
        self._note(f"refused a call of `{name}`: {ruling.line}")
        asked = Asked(identity, CALL, params)
        return refusal_to(asked, ruling, hard_as_error=self._hard_as_error)

    # Messages of the server.

    async def _answered(self, message: Message) -> _Sent:
        if message.kind is Kind.REQUEST:
            return await self._wanted(message)
        if message.kind is Kind.NOTIFICATION:
            if message.method == _CANCELLED:
                self._of_server.cancel(key_of(message.params.get("requestId")))
            return _Sent(on=await self._passing.notice(message))
        asked = self._of_client.close(message.key)
        if asked is None:
            self._note("dropped an unsolicited answer of the server")
            return _DROPPED
        # The answer gets the id exactly as the client wrote it.
        return _Sent(on=await self._passing.answer(asked, message.value))

    async def _wanted(self, message: Message) -> _Sent:
        identity = message.value["id"]
        if problem := self._of_server.open(message):
            return _Sent(back=error_to(identity, INVALID_REQUEST, problem))
        ruling = await self._passing.question(message)
        if ruling.refusal is None:
            return _Sent(on=message.value)
        self._of_server.close(message.key)
        return _Sent(back=to_mcp_denial(ruling.refusal, request_id=identity))


def _read(raw: bytes | None) -> Any:
    if raw is None:
        raise UnreadableError("the message is too long")
    return read(raw)


def _identity(message: Any) -> Any:
    """Return the id of a value that may be a message, or None."""
    identity = message.get("id") if isinstance(message, dict) else None
    return None if key_of(identity) is None else identity


def _each(messages: Iterable[Any]) -> tuple[bytes, ...]:
    return tuple(encode(one) for one in messages if one is not None)


def _lines(value: Any, messages: list[Any], raw: bytes | None = None) -> tuple[bytes, ...]:
    """Return messages as lines; a batch stays one line, and unchanged messages keep their bytes."""
    left = [one for one in messages if one is not None]
    if not left:
        return ()
    # INVARIANT: a message is sent as one line, for every reader's line breaks.
    kept = raw if raw is not None and not _BREAKS.search(raw) else None
    if not isinstance(value, list):
        return (kept if kept is not None and left[0] is value else encode(left[0]),)
    same = len(left) == len(value) and all(a is b for a, b in zip(left, value, strict=True))
    return (kept if kept is not None and same else encode(left),)
