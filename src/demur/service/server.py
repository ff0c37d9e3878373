"""The HTTP server of one process: bounded connections, and a shutdown that loses nothing.

uvicorn waits for a request head for ever and buffers whatever arrives. Here a connection that
sends nothing in time is closed, a head that is too large is refused, and above the connection
limit the connection that has been silent for longest is closed.

On a stop signal the server first reports so under `/ready` while it still takes calls, then
takes no more and finishes those under way. A second signal stops it at once. Every decision
that was answered was stored before that.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from demur.emit.envelope import PROBLEM_MEDIA_TYPE
from demur.listener import bind_listener as bound
from demur.listener import listener_url
from demur.service.calls import SECURITY_HEADERS
from demur.service.json_body import encode_json
from demur.service.problem import invalid_call, problem_details
from demur.service.settings import ServiceSettings

if TYPE_CHECKING:
    from demur.service.service import Service


MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
_REASONS: Mapping[int, bytes] = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class _HeadTooLargeError(Exception):
    """A request head exceeds the limits."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    `waiting_connections` are those whose next call is not complete yet, oldest first.
    """

    head_timeout_s: ClassVar[float]
    write_timeout_s: ClassVar[float]
    max_connections: ClassVar[int]
    waiting_connections: ClassVar[dict["BoundedProtocol", None]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_size = 0
        self._head_open = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > self.max_connections:
            next(iter(self.waiting_connections)).hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers of the connection."""
        self.waiting_connections.pop(self, None)
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; an incomplete head is bounded in time and size."""
        if self._head_open:
            self._head_size += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_open and self._head_size > MAX_HEAD_BYTES:
            self._too_large = True
            self.send_400_response("")
        # Data that starts no call must not extend the keep-alive time.
        elif self._head_timer is None and (
            self._head_open
            or (self.cycle.response_complete and self.timeout_keep_alive_task is None)
        ):
            self._wait_for_head()

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._head_open = True
        self._head_size = 0

    def on_headers_complete(self) -> None:
        """Check the size of a complete head, and start to answer."""
        self._stop_head_timer()
        self._head_open = False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._too_large = True
            raise _HeadTooLargeError
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the call is complete: from now on the client waits for the service."""
        self.waiting_connections.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next call; until then this connection may be closed to make room."""
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and not self.transport.is_closing():
            self.waiting_connections.setdefault(self)

    def pause_writing(self) -> None:
        """Limit the time to wait for a client that does not read."""
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(self.write_timeout_s, self.hang_up)

    def resume_writing(self) -> None:
        """Continue to write, because the client reads again."""
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client does not read either."""
        if self.transport.get_write_buffer_size():
            self.hang_up()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - demur sends its own text
        """Answer invalid HTTP or a head that is too large with problem details."""
        status = 431 if self._too_large else 400
        what = "the head of the call is too large" if self._too_large else "not valid HTTP/1.1"
        body = encode_json(problem_details(invalid_call(status, what)))
        lines = [
            b"HTTP/1.1 %d %s" % (status, _REASONS[status]),
            b"content-type: " + PROBLEM_MEDIA_TYPE.encode(),
            b"content-length: %d" % len(body),
            b"connection: close",
            *(name + b": " + value for name, value in SECURITY_HEADERS),
            b"",
            body,
        ]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()

    def _wait_for_head(self) -> None:
        self.waiting_connections.pop(self, None)
        self.waiting_connections[self] = None
        self._head_timer = self.loop.call_later(self.head_timeout_s, self.hang_up)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def hang_up(self) -> None:
        """Abort the connection, and mark its open calls as disconnected."""
        for cycle in (self.cycle, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
        self.pipeline.clear()
        self.waiting_connections.pop(self, None)
        self.transport.abort()


def make_protocol(settings: ServiceSettings, max_connections: int) -> type[BoundedProtocol]:
    """Return the protocol class of one server, with its limits."""

    class Bounded(BoundedProtocol):
        head_timeout_s = settings.head_timeout_s
        write_timeout_s = settings.body_timeout_s
        waiting_connections: ClassVar[dict[BoundedProtocol, None]] = {}

    Bounded.max_connections = max_connections
    return Bounded


_BACKLOG = 2048
# File descriptors that are not connections.
_SPARE_FILES = 256


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
    needed = settings.most_connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = needed if soft == resource.RLIM_INFINITY else soft
    return max(1, min(settings.most_connections, files - _SPARE_FILES))


@contextlib.contextmanager
def handle_stop_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals to stop, and restore their handlers afterwards."""
    before = {one: signal.signal(one, handler) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler_before in before.items():
            signal.signal(one, handler_before)


class ApiServer(uvicorn.Server):
    """The uvicorn server of one process."""

    def __init__(
        self,
        app: Starlette,
        settings: ServiceSettings,
        listener: socket.socket,
        on_started: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=make_protocol(settings, connection_limit(settings)),
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
        with handle_stop_signals(self.handle_exit):
            yield
