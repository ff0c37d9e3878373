"""HTTP/1.1 with bounds: how long a head may take, how large it may be, how many may wait.

The server underneath waits for a head for ever and keeps whatever comes. Here a connection
that says nothing in time is closed, a head that is too large is refused, and where there are
more connections than there may be, the one that has been silent for longest makes room.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from demur.service.call import encode_json
from demur.service.headers import SECURITY_HEADERS
from demur.service.problem import PROBLEM_MEDIA_TYPE, invalid_request, problem_details
from demur.service.settings import ServiceSettings

__all__ = ["MAX_HEAD_BYTES", "MAX_HEADERS", "BoundedProtocol", "make_protocol"]

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
_REASONS: Mapping[int, bytes] = {
    400: b"Bad Request",
    431: b"Request Header Fields Too Large",
}


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
        elif self._head_timer is None and (self._head_open or self._is_idle()):
            self._wait_for_head()

    def _is_idle(self) -> bool:
        """Return whether data arrived that starts no call, which extends no keep-alive time."""
        return self.cycle.response_complete and self.timeout_keep_alive_task is None

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
        body = encode_json(problem_details(invalid_request(status, what)))
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
