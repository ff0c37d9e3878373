"""Sessions of HTTP clients: each has its own server, guard, run and streams.

An answer goes to the stream of its request, progress to the request that it reports on, and any
other message to the client's open stream, or else to the request that was made last.
"""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.errors import DemurError
from demur.integrations.mcp_proxy.addressing import session_run_name
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import Notify
from demur.integrations.mcp_proxy.transport import Upstream, relay_messages

# Backpressure: how much may wait for the client, and for how long.
_MAX_WAITING_LINES = 64
_MAX_WAITING_BYTES = 4 * 1024 * 1024
STREAM_TIMEOUT_S = 30.0


class EventStream:
    """A queue of messages in order; it accepts none after its end."""

    def __init__(
        self, *, max_waiting: int = _MAX_WAITING_LINES, timeout_s: float = STREAM_TIMEOUT_S
    ) -> None:
        self._max_waiting = max_waiting
        self._timeout_s = timeout_s
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._size = 0
        self.ended = False

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= self._max_waiting or self._size > _MAX_WAITING_BYTES

    async def put(self, line: bytes) -> bool:
        """Add a message, and return whether it was accepted; a stream that is not read ends."""
        while self._is_full and not self.ended:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), self._timeout_s)
            except TimeoutError:
                self.end()
        if self.ended:
            return False
        self.add(line)
        return True

    def add(self, line: bytes) -> None:
        """Add a message without a limit."""
        self._waiting.append(line)
        self._size += len(line)
        self._more.set()

    def end(self) -> None:
        """Accept no more messages; waiting ones can still be read."""
        self.ended = True
        self._more.set()
        self._room.set()

    async def lines(self, keep_alive_s: float) -> AsyncIterator[bytes]:
        """Yield the messages until the end, and an empty one after each pause of `keep_alive_s`.

        Writing to the connection is the only way to notice that the client is gone.
        """
        while True:
            while self._waiting:
                line = self._waiting.popleft()
                self._size -= len(line)
                self._room.set()
                yield line
            if self.ended:
                return
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), keep_alive_s)
            except TimeoutError:
                yield b""


# How many posted lines may wait for the relay.
_MAX_POSTED_LINES = 16
# Unsolicited messages kept while no stream is open; above the limit, the oldest are dropped.
_MAX_BACKLOG = 256
_MAX_BACKLOG_BYTES = 1024 * 1024
_PROGRESS_METHOD = "notifications/progress"


class ServerBusyError(DemurError):
    """The server has not read its input for long, and the queue is full."""


class HttpDownstream:
    """One client, with its open requests and its stream for unsolicited messages.

    `is_greeted` says that the server has accepted the handshake.
    """

    def __init__(self, timeout_s: float = STREAM_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._posted_lines: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._is_closed = False
        self._waiting: dict[rpc.RequestKey, EventStream] = {}
        self._progress: dict[rpc.RequestKey, EventStream] = {}
        self._listening: EventStream | None = None
        self._backlog: deque[bytes] = deque(maxlen=_MAX_BACKLOG)
        self._greeting: rpc.RequestKey | None = None
        self.is_greeted = False

    @property
    def in_use(self) -> bool:
        """Whether one of its streams is open."""
        return bool(self._waiting) or self._is_listening

    # Called for the client.

    async def post_line(self, line: bytes) -> None:
        """Queue a message that needs no answer; it is lost if the relay has ended.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        await self._wait_for_room()
        self._append_line(line)

    async def post_request(self, line: bytes, message: rpc.RpcMessage) -> EventStream | None:
        """Queue a request, and return the stream of its answer; None if its id is in use.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        assert message.key is not None
        await self._wait_for_room()
        if message.key in self._waiting:
            return None
        stream = EventStream()
        if message.method == "initialize":
            self._greeting = message.key
        elif not self._is_listening:
            self._deliver_backlog(stream)
        self._waiting[message.key] = stream
        token = _progress_token(message.params.get("_meta"))
        if token is not None:
            self._progress[token] = stream
        self._append_line(line)
        if self._is_closed:
            self.close()
        return stream

    async def _wait_for_room(self) -> None:
        """Wait until the queue has room, or the relay has ended."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while len(self._posted_lines) >= _MAX_POSTED_LINES and not self._is_closed:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise ServerBusyError("the server does not read its input") from None

    def _append_line(self, line: bytes) -> None:
        if not self._is_closed:
            self._posted_lines.append(line)
            self._more.set()

    def cancel_request(self, identity: Any) -> None:
        """End the stream of a cancelled request."""
        key = rpc.request_key(identity)
        if key in self._waiting:
            self.forget_stream(self._waiting[key])

    def open_stream(self) -> EventStream:
        """Open the stream for unsolicited messages; an earlier one ends."""
        if self._listening is not None:
            self._listening.end()
        self._listening = stream = EventStream()
        if self._is_closed:
            stream.end()
        self._deliver_backlog(stream)
        return stream

    def forget_stream(self, stream: EventStream) -> None:
        """End a stream, and forget its request."""
        stream.end()
        for streams in (self._waiting, self._progress):
            for key in [key for key, one in streams.items() if one is stream]:
                del streams[key]

    def close(self) -> None:
        """End all streams, those of requests with an error; later messages are lost."""
        self._is_closed = True
        self._room.set()
        for (_, identity), stream in list(self._waiting.items()):
            error = rpc.error_response(identity, rpc.SERVER_GONE, "the session has ended")
            stream.add(rpc.encode_message(error))
            self.forget_stream(stream)
        if self._listening is not None:
            self._listening.end()

    # Called by the relay.

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the lines that the client posted."""
        while True:
            while not self._posted_lines:
                self._more.clear()
                await self._more.wait()
            line = self._posted_lines.popleft()
            self._room.set()
            yield line

    async def send(self, line: bytes) -> None:
        """Pass a message to its stream; an answer without a request is dropped."""
        value = rpc.parse_json(line)
        for one in value if isinstance(value, list) else [value]:
            own = line if one is value else rpc.encode_message(one)
            if "method" in one:
                await self._deliver_unasked(own, one)
            else:
                await self._deliver_answer(own, one)

    async def _deliver_answer(self, line: bytes, answer: dict[str, Any]) -> None:
        key = rpc.request_key(answer["id"])
        stream = None if key is None else self._waiting.get(key)
        if stream is None:
            return
        if key == self._greeting:
            self.is_greeted = self.is_greeted or ("result" in answer and not stream.ended)
        await stream.put(line)
        self.forget_stream(stream)

    async def _deliver_unasked(self, line: bytes, message: dict[str, Any]) -> None:
        while (stream := self._stream_for(message)) is not None:
            if await stream.put(line):
                return
            self.forget_stream(stream)
        self._backlog.append(line)
        while sum(map(len, self._backlog)) > _MAX_BACKLOG_BYTES:
            self._backlog.popleft()

    def _stream_for(self, message: dict[str, Any]) -> EventStream | None:
        if message["method"] == _PROGRESS_METHOD:
            token = _progress_token(message.get("params"))
            if token is not None and token in self._progress:
                return self._progress[token]
        if self._is_listening:
            return self._listening
        return next(reversed(self._waiting.values()), None)

    @property
    def _is_listening(self) -> bool:
        return self._listening is not None and not self._listening.ended

    def _deliver_backlog(self, stream: EventStream) -> None:
        for line in [self._backlog.popleft() for _ in range(min(len(self._backlog), 32))]:
            stream.add(line)


def _progress_token(holder: Any) -> rpc.RequestKey | None:
    return rpc.request_key(holder.get("progressToken")) if isinstance(holder, dict) else None


MAX_SESSIONS = 32
# A session that is idle for this long gives way to a new client if there is no room.
_YIELDING_S = 60.0
_ENDING_S = 5.0
# Open requests of one session.
MAX_POSTS = 64
IDLE_S = 900.0


class TooManySessionsError(DemurError):
    """The proxy has as many sessions as allowed, or is shutting down."""


class ProxySession:
    """A client with a server of its own; `posts` counts its open posts, `owner` is its address."""

    def __init__(self, session_id: str, now: float, timeout_s: float, owner: str = "") -> None:
        self.session_id = session_id
        self.owner = owner
        self.task: asyncio.Task[None] | None = None
        self.client = HttpDownstream(timeout_s)
        self.stopped = asyncio.Event()
        self.used_at = now
        self.posts = 0

    @contextlib.contextmanager
    def count_post(self) -> Iterator[bool]:
        """Count a post while it lasts; yield whether there is room for it."""
        self.posts += 1
        try:
            yield self.posts <= MAX_POSTS
        finally:
            self.posts -= 1

    @property
    def run_name(self) -> str:
        """Its name in records."""
        return session_run_name(self.session_id)


class ProxySessions:
    """Begins, finds and ends sessions.

    `open_server` starts or connects the server of one session, `guard_for` makes its guard for a
    run name, and `new_id` returns unguessable ids. A server that reads nothing for longer than
    `timeout_s` counts as busy. One address may have `max_client_sessions`, by default three
    quarters of all.
    """

    def __init__(
        self,
        open_server: Callable[[], Awaitable[Upstream]],
        guard_for: Callable[[str], ConnectionGuard],
        *,
        new_id: Callable[[], str],
        notify: Notify,
        max_sessions: int = MAX_SESSIONS,
        max_client_sessions: int | None = None,
        idle_s: float = IDLE_S,
        timeout_s: float = STREAM_TIMEOUT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_server = open_server
        self._guard_for = guard_for
        self._new_id = new_id
        self._notify = notify
        self._max_sessions = max_sessions
        share = max_sessions - max_sessions // 4
        self._max_client_sessions = share if max_client_sessions is None else max_client_sessions
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._sessions: dict[str, ProxySession] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._opening: Counter[str] = Counter()
        self._closing = False

    async def begin_session(self, owner: str = "") -> ProxySession:
        """Begin a session with a running server; `owner` is the address of its client.

        Raises:
            TooManySessionsError: There is no room for one more.
            InputError: The server cannot be started.
        """
        owners = Counter(session.owner for session in self._sessions.values()) + self._opening
        if self._max_client_sessions <= owners[owner] < self._max_sessions:
            raise TooManySessionsError("this client has as many sessions as it may have")
        # No client keeps idle sessions that another one needs.
        if not self._has_room():
            await self._end_longest_idle(owners)
        if self._closing or not self._has_room():
            raise TooManySessionsError("the proxy has no room for another session")
        self._opening[owner] += 1
        try:
            server = await self._open_server()
        except DemurError as error:
            self._notify(f"cannot begin a session: {error}")
            raise
        finally:
            self._opening[owner] -= 1
        session = ProxySession(self._new_id(), self._monotonic(), self._timeout_s, owner)
        task = session.task = asyncio.create_task(self._run_session(session, server))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self._sessions[session.session_id] = session
        if self._closing:
            self.end_session(session)
        return session

    def _has_room(self) -> bool:
        # Sessions that are ending still have a server, so they count.
        return len(self._running) + self._opening.total() < self._max_sessions

    async def _end_longest_idle(self, owners: Counter[str]) -> None:
        """End the longest idle session, first one of the client that has most of them."""
        oldest = self._monotonic() - _YIELDING_S
        idle = [
            session
            for session in self._sessions.values()
            if not session.client.in_use and session.used_at < oldest
        ]
        if not idle:
            return
        session = min(idle, key=lambda one: (-owners[one.owner], one.used_at))
        self._notify(
            f"ended session {session.run_name}: it was idle, and another client needs room"
        )
        self.end_session(session)
        if session.task is not None:
            await asyncio.wait({session.task}, timeout=_ENDING_S)

    def find_session(self, session_id: str) -> ProxySession | None:
        """Return the session with that id, and mark it as used."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.used_at = self._monotonic()
        return session

    def end_session(self, session: ProxySession) -> None:
        """Remove a session, and stop its server."""
        self._sessions.pop(session.session_id, None)
        session.stopped.set()

    def end_idle(self) -> None:
        """End the sessions that are idle for long and have no open stream."""
        now = self._monotonic()
        for session in list(self._sessions.values()):
            if session.client.in_use:
                session.used_at = now
            elif now - session.used_at > self._idle_s:
                self._notify(f"ended session {session.run_name}: it was idle")
                self.end_session(session)

    async def close(self) -> None:
        """End all sessions, accept no new ones, and wait until their servers have ended."""
        self._closing = True
        for session in list(self._sessions.values()):
            self.end_session(session)
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run_session(self, session: ProxySession, server: Upstream) -> None:
        guard = self._guard_for(session.run_name)
        try:
            await relay_messages(guard, session.client, server, session.stopped)
        except Exception as error:  # noqa: BLE001 - a failed session must not end the others
            self._notify(f"session {session.run_name} failed: {type(error).__name__}")
        finally:
            session.client.close()
            self._sessions.pop(session.session_id, None)
