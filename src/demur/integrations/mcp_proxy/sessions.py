"""Sessions of HTTP clients: each has its own server, guard and run."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from demur.errors import DemurError
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.http_client import HttpDownstream
from demur.integrations.mcp_proxy.listing import Notify
from demur.integrations.mcp_proxy.naming import session_run_name
from demur.integrations.mcp_proxy.relay import relay_messages
from demur.integrations.mcp_proxy.stream import STREAM_TIMEOUT_S
from demur.integrations.mcp_proxy.upstream import Upstream

__all__ = [
    "IDLE_S",
    "MAX_SESSIONS",
    "MAX_POSTS",
    "TooManySessionsError",
    "ProxySession",
    "ProxySessions",
]

MAX_SESSIONS = 32
# Open requests of one session.
MAX_POSTS = 64
IDLE_S = 900.0


class TooManySessionsError(DemurError):
    """The proxy has as many sessions as allowed, or is shutting down."""


class ProxySession:
    """A client with a server of its own; `posts` counts its open posts."""

    def __init__(self, session_id: str, now: float, timeout_s: float) -> None:
        self.session_id = session_id
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
    `timeout_s` counts as busy.
    """

    def __init__(
        self,
        open_server: Callable[[], Awaitable[Upstream]],
        guard_for: Callable[[str], ConnectionGuard],
        *,
        new_id: Callable[[], str],
        notify: Notify,
        max_sessions: int = MAX_SESSIONS,
        idle_s: float = IDLE_S,
        timeout_s: float = STREAM_TIMEOUT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_server = open_server
        self._guard_for = guard_for
        self._new_id = new_id
        self._notify = notify
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._sessions: dict[str, ProxySession] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._opening = 0
        self._closing = False

    async def begin_session(self) -> ProxySession:
        """Begin a session with a running server.

        Raises:
            TooManySessionsError: There is no room for one more.
            InputError: The server cannot be started.
        """
        # Sessions that are ending still have a server, so they count.
        if self._closing or len(self._running) + self._opening >= self._max_sessions:
            raise TooManySessionsError("the proxy has no room for another session")
        self._opening += 1
        try:
            server = await self._open_server()
        except DemurError as error:
            self._notify(f"cannot begin a session: {error}")
            raise
        finally:
            self._opening -= 1
        session = ProxySession(self._new_id(), self._monotonic(), self._timeout_s)
        task = asyncio.create_task(self._run_session(session, server))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self._sessions[session.session_id] = session
        if self._closing:
            self.end(session)
        return session

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
