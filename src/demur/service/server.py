"""Running the service in one process, and an end that loses nothing.

Told to stop, it first says so under `/ready` while it still takes calls, then takes no more
and finishes what it has begun. Told twice, it stops at once. Every decision that was answered
was stored before that anyway.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette

from demur.listener import bind_listener as bound
from demur.listener import listener_url
from demur.service.protocol import make_protocol
from demur.service.settings import ServiceSettings

if TYPE_CHECKING:
    from demur.service.service import Service

__all__ = ["ApiServer", "bind_listener", "connection_limit", "serve"]

_BACKLOG = 2048
# File descriptors that are not connections.
_SPARE_FILES = 256
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    app: Starlette,
    settings: ServiceSettings,
    *,
    listener: socket.socket | None = None,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serve an application until stopped; `on_started` is called with the address.

    Raises:
        InputError: The address cannot be bound.
    """
    with contextlib.closing(bind_listener(settings) if listener is None else listener) as taken:
        server = ApiServer(app, settings, taken, on_started)
        server.run(sockets=[taken])


def bind_listener(settings: ServiceSettings) -> socket.socket:
    """Return a socket that listens on the configured address.

    Raises:
        InputError: The address cannot be bound.
    """
    help_text = "another service may listen there: choose a port with --port"
    host = settings.host.strip("[]")
    return bound(host, settings.port, backlog=_BACKLOG, help=help_text)


def connection_limit(settings: ServiceSettings) -> int:
    """Raise the limit of open files as far as allowed; return how many connections fit into it."""
    if sys.platform == "win32":
        return settings.most_connections
    import resource  # noqa: PLC0415 - POSIX only

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.most_connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = wanted if soft == resource.RLIM_INFINITY else soft
    return max(1, min(settings.most_connections, files - _SPARE_FILES))


class ApiServer(uvicorn.Server):
    """The uvicorn server of one process."""

    def __init__(
        self,
        app: Starlette,
        settings: ServiceSettings,
        listener: socket.socket,
        on_started: Callable[[str], None] | None = None,
    ) -> None:
        most = connection_limit(settings)
        super().__init__(
            uvicorn.Config(
                app,
                http=make_protocol(settings, most),
                ws="none",
                loop="uvloop" if os.name == "posix" else "asyncio",
                lifespan="on",
                proxy_headers=False,
                access_log=False,
                server_header=False,
                log_level="error",
                backlog=_BACKLOG,
                timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type]
                timeout_graceful_shutdown=settings.grace_s,  # type: ignore[arg-type]
            )
        )
        self._service: Service = app.state.service
        self._listener = listener
        self._on_started = on_started
        self._drain_s = settings.drain_s
        self._leave_at: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report the address."""
        await super().startup(sockets)
        if self._on_started is not None:
            self._on_started(listener_url(self._listener))

    def stop(self, drain_s: float | None = None) -> None:
        """Stop: the first call finishes what is under way, the second stops at once."""
        if self._leave_at is None:
            self._service.closing = True
            self._leave_at = time.monotonic() + (self._drain_s if drain_s is None else drain_s)
            self.should_exit = self._leave_at <= time.monotonic()
        else:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Check the deadline of the shutdown; uvicorn calls this ten times a second."""
        if self._leave_at is not None and time.monotonic() >= self._leave_at:
            self.should_exit = True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's
        """Stop; Ctrl-C skips the drain time."""
        self.stop(0.0 if sig == signal.SIGINT else None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; they do not end the process afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[signal.Signals, Any] = {
            one: signal.signal(one, self.handle_exit) for one in _STOP_SIGNALS
        }
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
