"""Sessions of HTTP clients: each has its own server, guard, run and streams.

An answer goes to the stream of its request, progress to the request that it reports on, and any
other message to the client's open stream, or else to the request that was made last.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.errors import DemurError
from demur.integrations.mcp_proxy.addressing import session_run_name
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import Notify
from demur.integrations.mcp_proxy.transport import PausingUpstream, Upstream, relay_messages

# Backpressure: how much may wait for the client, and for how long.
_MAX_WAITING_LINES = 64
_MAX_WAITING_BYTES = 4 * 1024 * 1024
STREAM_TIMEOUT_S = 30.0


class EventStream:
    """A queue of messages in order; it accepts none after its end.

    A stream with a `name` can be resumed: it keeps what was read last, and `position` counts what
    was read. While it is detached, nobody reads it.
    """

    def __init__(
        self,
        name: str = "",
        *,
        max_waiting: int = _MAX_WAITING_LINES,
        timeout_s: float = STREAM_TIMEOUT_S,
    ) -> None:
        self.name = name
        self.position = 0
        self.detached = False
        self._kept: deque[bytes] = deque()
        self._kept_size = 0
        # Counts the readers: only the last one gets lines.
        self.reader = 0
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
            if self.detached:
                self.end()
                break
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

    def detach(self, reader: int | None = None) -> None:
        """End the reading of a stream that can be resumed; any other stream ends.

        With `reader`, do nothing if another one reads it by now.
        """
        if reader not in {None, self.reader}:
            return
        if not self.name:
            self.end()
            return
        self.detached = True
        self.reader += 1
        self._more.set()
        self._room.set()

    def rewind(self, position: int) -> None:
        """Have the messages after `position` read again, as far as they are kept."""
        self.detach()
        while self._kept and self.position > position:
            line = self._kept.pop()
            self._kept_size -= len(line)
            self._waiting.appendleft(line)
            self._size += len(line)
            self.position -= 1

    def _keep_line(self, line: bytes) -> None:
        self.position += 1
        if self.name:
            self._kept.append(line)
            self._kept_size += len(line)
        while len(self._kept) > _MAX_WAITING_LINES or self._kept_size > _MAX_WAITING_BYTES:
            self._kept_size -= len(self._kept.popleft())

    def lines(self, keep_alive_s: float) -> AsyncIterator[bytes]:
        """Yield the messages until the end, and an empty one after each pause of `keep_alive_s`.

        Writing to the connection is the only way to notice that the client is gone. An earlier
        reader gets no more lines.
        """
        self.reader += 1
        self.detached = False
        return self._read_lines(self.reader, keep_alive_s)

    async def _read_lines(self, reader: int, keep_alive_s: float) -> AsyncIterator[bytes]:
        while reader == self.reader:
            while self._waiting:
                line = self._waiting.popleft()
                self._size -= len(line)
                self._keep_line(line)
                self._room.set()
                yield line
                if reader != self.reader:
                    return
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
# Streams of one client that wait for it to return.
_MAX_DETACHED = 8
_POSITION = re.compile(r"\d{1,9}")


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
        self._named: dict[str, EventStream] = {}
        self._named_count = 0
        self.is_greeted = False

    @property
    def in_use(self) -> bool:
        """Whether one of its streams is open."""
        waits = any(not stream.detached for stream in self._waiting.values())
        return waits or self._is_listening

    # Called for the client.

    async def post_line(self, line: bytes) -> None:
        """Queue a message that needs no answer; it is lost if the relay has ended.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        await self._wait_for_room()
        self._append_line(line)

    async def post_request(
        self, line: bytes, message: rpc.RpcMessage, *, resumable: bool = False
    ) -> EventStream | None:
        """Queue a request, and return the stream of its answer; None if its id is in use.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        assert message.key is not None
        await self._wait_for_room()
        if message.key in self._waiting:
            return None
        stream = self._new_stream(resumable=resumable)
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

    def _new_stream(self, *, resumable: bool) -> EventStream:
        if not resumable:
            return EventStream()
        self._named_count += 1
        stream = self._named[str(self._named_count)] = EventStream(str(self._named_count))
        return stream

    def resume_stream(self, event_id: str) -> EventStream | None:
        """Return the stream of an event, to be read from the next one on; None if it is gone."""
        name, _, position = event_id.partition("-")
        stream = self._named.get(name)
        if stream is None or not _POSITION.fullmatch(position):
            return None
        stream.rewind(int(position))
        if stream is self._listening:
            self._deliver_backlog(stream)
        return stream

    def pause_request(self, key: rpc.RequestKey) -> None:
        """End the reading of a request's stream, because the server wants its client to return."""
        stream = self._waiting.get(key)
        if stream is not None and stream.name:
            stream.detach()

    def release_stream(self, stream: EventStream, reader: int) -> None:
        """Forget a stream that was read, or keep it for a while if it can be resumed."""
        if not stream.detached and stream.reader == reader:
            self.forget_stream(stream)
            self._named.pop(stream.name, None)
        detached = [one for one in self._named.values() if one.detached]
        for old in detached[:-_MAX_DETACHED]:
            self.forget_stream(old)
            del self._named[old.name]

    def open_stream(self, *, resumable: bool = False) -> EventStream:
        """Open the stream for unsolicited messages; an earlier one ends."""
        if self._listening is not None:
            self._listening.end()
            self._named.pop(self._listening.name, None)
        self._listening = stream = self._new_stream(resumable=resumable)
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
        for key, stream in list(self._waiting.items()):
            problem = "the session has ended"
            error = rpc.error_response(self._client_id(key), rpc.SERVER_GONE, problem)
            stream.add(rpc.encode_message(error))
            self.forget_stream(stream)
        if self._listening is not None:
            self._listening.end()

    def _client_id(self, key: rpc.RequestKey) -> Any:
        """Return the id of a request as its client gave it."""
        return key[1]

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
        stream = self._listening
        return stream is not None and not stream.ended and not stream.detached

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


# Owners are named by a key, or else by an address.
KEY_PREFIX = "key:"


class ProxySession:
    """A client with a server of its own; `posts` counts its open posts, `owner` is its caller.

    `run` names it where loops are counted; it is empty if its requests may be of several clients.
    """

    def __init__(
        self, session_id: str, now: float, client: HttpDownstream, owner: str, run: str
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.run = run
        self.task: asyncio.Task[None] | None = None
        self.client = client
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
        self._stateless: dict[str, ProxySession] = {}
        self._sharing = asyncio.Lock()
        self._closing = False

    def find_stateless(self, owner: str) -> ProxySession | None:
        """Return the session that the requests without a session share, and mark it as used."""
        session = self._stateless.get(owner)
        return None if session is None else self.find_session(session.session_id)

    async def share_session(
        self, owner: str, make_client: Callable[[float], HttpDownstream]
    ) -> ProxySession:
        """Return the session that the requests of an owner share, and begin it if necessary.

        Raises:
            TooManySessionsError: There is no room for one more.
            InputError: The server cannot be started.
        """
        async with self._sharing:
            session = self.find_stateless(owner)
            if session is None:
                # Anonymous requests may be of several clients.
                run = session_run_name(owner) if owner.startswith(KEY_PREFIX) else ""
                session = await self.begin_session(owner, make_client(self._timeout_s), run=run)
                self._stateless[owner] = session
            return session

    async def begin_session(
        self, owner: str = "", client: HttpDownstream | None = None, *, run: str | None = None
    ) -> ProxySession:
        """Begin a session with a running server; `owner` is the caller.

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
        session_id = self._new_id()
        name = session_run_name(session_id) if run is None else run
        client = client or HttpDownstream(self._timeout_s)
        session = ProxySession(session_id, self._monotonic(), client, owner, name)
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
        self._forget_session(session)
        session.stopped.set()

    def _forget_session(self, session: ProxySession) -> None:
        self._sessions.pop(session.session_id, None)
        if self._stateless.get(session.owner) is session:
            del self._stateless[session.owner]

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
        guard = self._guard_for(session.run)
        if isinstance(server, PausingUpstream):
            server.on_pause = session.client.pause_request
        try:
            await relay_messages(guard, session.client, server, session.stopped)
        except Exception as error:  # noqa: BLE001 - a failed session must not end the others
            self._notify(f"session {session.run_name} failed: {type(error).__name__}")
        finally:
            session.client.close()
            self._forget_session(session)
