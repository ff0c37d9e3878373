"""Sessions of HTTP clients: each has its own server, guard and run."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from demur.errors import DemurError
from demur.integrations.mcp_proxy.guard import Guard
from demur.integrations.mcp_proxy.http_client import HttpClient
from demur.integrations.mcp_proxy.listing import Note
from demur.integrations.mcp_proxy.naming import session_run
from demur.integrations.mcp_proxy.relay import relay
from demur.integrations.mcp_proxy.stream import PATIENCE_S
from demur.integrations.mcp_proxy.upstream import Upstream

__all__ = ["IDLE_S", "MOST", "MOST_POSTS", "FullError", "Session", "Sessions"]

MOST = 32
# Open requests of one session.
MOST_POSTS = 64
IDLE_S = 900.0


class FullError(DemurError):
    """The proxy has as many sessions as allowed, or is shutting down."""


class Session:
    """A client with a server of its own; `posts` counts its open posts."""

    def __init__(self, identity: str, now: float, patience_s: float) -> None:
        self.identity = identity
        self.client = HttpClient(patience_s)
        self.stopped = asyncio.Event()
        self.used_at = now
        self.posts = 0

    @contextlib.contextmanager
    def posting(self) -> Iterator[bool]:
        """Count a post while it lasts; yield whether there is room for it."""
        self.posts += 1
        try:
            yield self.posts <= MOST_POSTS
        finally:
            self.posts -= 1

    @property
    def run(self) -> str:
        """Its name in records."""
        return session_run(self.identity)


class Sessions:
    """Begins, finds and ends sessions.

    `open_server` starts or connects the server of one session, `guard_for` makes its guard for a
    run name, and `new_id` returns unguessable ids. A server that reads nothing for longer than
    `timeout_s` counts as busy.
    """

    def __init__(
        self,
        open_server: Callable[[], Awaitable[Upstream]],
        guard_for: Callable[[str], Guard],
        *,
        new_id: Callable[[], str],
        note: Note,
        most: int = MOST,
        idle_s: float = IDLE_S,
        patience_s: float = PATIENCE_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_server = open_server
        self._guard_for = guard_for
        self._new_id = new_id
        self._note = note
        self._most = most
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._seconds = seconds
        self._sessions: dict[str, Session] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._opening = 0
        self._closing = False

    async def begin(self) -> Session:
        """Begin a session with a running server.

        Raises:
            TooManySessionsError: There is no room for one more.
            InputError: The server cannot be started.
        """
        # Sessions that are ending still have a server, so they count.
        if self._closing or len(self._running) + self._opening >= self._most:
            raise FullError("the proxy has no room for another session")
        self._opening += 1
        try:
            server = await self._open_server()
        except DemurError as error:
            self._note(f"cannot begin a session: {error}")
            raise
        finally:
            self._opening -= 1
        session = Session(self._new_id(), self._seconds(), self._patience_s)
        task = asyncio.create_task(self._relayed(session, server))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self._sessions[session.identity] = session
        if self._closing:
            self.end(session)
        return session

    def find(self, identity: str) -> Session | None:
        """Return the session with that id, and mark it as used."""
        session = self._sessions.get(identity)
        if session is not None:
            session.used_at = self._seconds()
        return session

    def end(self, session: Session) -> None:
        """Remove a session, and stop its server."""
        self._sessions.pop(session.identity, None)
        session.stopped.set()

    def end_idle(self) -> None:
        """End the sessions that are idle for long and have no open stream."""
        now = self._seconds()
        for session in list(self._sessions.values()):
            if session.client.in_use:
                session.used_at = now
            elif now - session.used_at > self._idle_s:
                self._note(f"ended session {session.run}: it was idle")
                self.end(session)

    async def close(self) -> None:
        """End all sessions, accept no new ones, and wait until their servers have ended."""
        self._closing = True
        for session in list(self._sessions.values()):
            self.end(session)
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _relayed(self, session: Session, server: Upstream) -> None:
        guard = self._guard_for(session.run)
        try:
            await relay(guard, session.client, server, session.stopped)
        except Exception as error:  # noqa: BLE001 - a failed session must not end the others
            self._note(f"session {session.run} failed: {type(error).__name__}")
        finally:
            session.client.close()
            self._sessions.pop(session.identity, None)
