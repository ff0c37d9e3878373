"""Listen for HTTP clients until stopped, and end every session first."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from demur.integrations._kit import missing_extra
from demur.integrations.mcp_proxy.http_app import PATH, McpHttpApp
from demur.integrations.mcp_proxy.sessions import MAX_POSTS, ProxySessions
from demur.listener import bind_listener as bound
from demur.listener import listener_url as address_of

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise missing_extra("service", "uvicorn") from error


_BACKLOG = 128
# The connection limit is computed from this number per session.
_CONNECTIONS_PER_SESSION = 16
_SWEEP_S = 5.0
# How long a connection may be open without a request.
_IDLE_TIMEOUT_S = 10
_GRACE_S = 3


def bind_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        InputError: The address cannot be bound.
    """
    return bound(host, port, backlog=_BACKLOG, help="choose another port")


def listener_url(listener: socket.socket) -> str:
    """Return the URL for clients."""
    return address_of(listener, PATH)


async def serve_clients(
    app: McpHttpApp,
    sessions: ProxySessions,
    listener: socket.socket,
    stopped: asyncio.Event,
    *,
    max_sessions: int,
    sweep_s: float = _SWEEP_S,
    idle_timeout_s: int = _IDLE_TIMEOUT_S,
) -> None:
    """Serve clients until `stopped`, and return when all sessions have ended."""
    server = _EmbeddedServer(
        uvicorn.Config(
            app,
            http=_IdleClosingProtocol,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            access_log=False,
            server_header=False,
            log_level="error",
            limit_concurrency=MAX_POSTS + max_sessions * _CONNECTIONS_PER_SESSION,
            timeout_keep_alive=idle_timeout_s,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))

    async def end_idle_sessions() -> None:
        while True:
            await asyncio.sleep(sweep_s)
            sessions.end_idle()

    sweeping = asyncio.create_task(end_idle_sessions())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        sweeping.cancel()
        # Ending the sessions ends their streams, so that the server can exit.
        await sessions.close()
        server.should_exit = True
        await serving


class _IdleClosingProtocol(H11Protocol):
    """Closes a connection that is idle for long, before the first request or within a head.

    It is based on h11, which bounds the size of a head.
    """

    _check_timer: asyncio.TimerHandle
    _last_cycle: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the idle timer."""
        super().connection_made(transport)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the idle timer."""
        self._check_timer.cancel()
        super().connection_lost(exc)

    def _schedule_check(self) -> None:
        self._check_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        # None before the first request.
        cycle: Any = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if is_idle and cycle is self._last_cycle:
            # No request since the last check.
            self.transport.close()
            return
        self._last_cycle = cycle if is_idle else self
        self._schedule_check()


class _EmbeddedServer(uvicorn.Server):
    """Leaves signals to the caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signals."""
        yield
