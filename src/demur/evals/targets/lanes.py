"""Connections for many requests at once: one lane for each that is under way, kept open.

It stands in for httpx's own pool, which looks through all its connections for each request:
with 64 of them that takes longer than most answers do. Proxies are left to httpx.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import h11
import httpx

if TYPE_CHECKING:
    import ssl

__all__ = ["ConnectionPool"]

_READ_SIZE = 65_536


class ConnectionPool(httpx.AsyncBaseTransport):
    """A transport for direct connections, without a limit: the caller bounds the concurrency.

    httpx's own pool searches all its connections for each request, which with 64 of them takes
    longer than most answers do. Proxies are left to httpx.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[str, str, int], list[_PooledConnection]] = {}
        self._context: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response with an unread body; closing the body frees the connection.

        Raises:
            httpx.TransportError: The connection failed.
        """
        lane = await self._acquire(request.url)
        try:
            await lane.send_request(request)
            head = await lane.read_head()
        except BaseException:
            lane.close()
            raise
        return httpx.Response(
            head.status_code, headers=head.headers.raw_items(), stream=_PooledBody(lane)
        )

    async def aclose(self) -> None:
        """Close every free connection."""
        lanes = [lane for free in self._free.values() for lane in free]
        self._free.clear()
        for lane in lanes:
            lane.close()
        for lane in lanes:
            await lane.wait_closed()

    async def _acquire(self, url: httpx.URL) -> "_PooledConnection":
        port = url.port or (443 if url.scheme == "https" else 80)
        free = self._free.setdefault((url.scheme, url.host, port), [])
        while free:
            lane = free.pop()
            if lane.is_usable:
                return lane
            lane.close()
        if url.scheme == "https" and self._context is None:
            self._context = httpx.create_ssl_context()
        secure = self._context if url.scheme == "https" else None
        try:
            reader, writer = await asyncio.open_connection(url.host, port, ssl=secure)
        except OSError as error:
            raise httpx.ConnectError(_os_reason(error)) from error
        return _PooledConnection(reader, writer, free)


class _PooledConnection:
    """One connection, which carries one request at a time."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        free: "list[_PooledConnection]",
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._free = free
        self._http = h11.Connection(h11.CLIENT)

    @property
    def is_usable(self) -> bool:
        """Whether the connection is still open, as far as is known."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def send_request(self, request: httpx.Request) -> None:
        """Send a request with its body."""
        parts = [
            self._http.send(
                h11.Request(
                    method=request.method,
                    target=request.url.raw_path,
                    headers=request.headers.raw,
                )
            ),
            self._http.send(h11.Data(data=request.content)),
            self._http.send(h11.EndOfMessage()),
        ]
        try:
            self._writer.write(b"".join(part or b"" for part in parts))
            await self._writer.drain()
        except OSError as error:
            raise httpx.WriteError(_os_reason(error)) from error

    async def read_head(self) -> h11.Response:
        """Return status and headers, skipping informational responses."""
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event

    async def iter_body(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body."""
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def _next_event(self) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    break
                self._http.receive_data(await self._reader.read(_READ_SIZE))
            except h11.RemoteProtocolError as error:
                raise httpx.RemoteProtocolError(str(error)) from error
            except OSError as error:
                raise httpx.ReadError(_os_reason(error)) from error
        if isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
            return event
        raise httpx.RemoteProtocolError("the connection was closed before an answer came")

    def release(self) -> None:
        """Keep the connection for the next request, or close it if it cannot be reused."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._free.append(self)
        else:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class _PooledBody(httpx.AsyncByteStream):
    """The body of a response; closing it returns the connection to the pool."""

    def __init__(self, lane: _PooledConnection) -> None:
        self._lane = lane

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._lane.iter_body()

    async def aclose(self) -> None:
        self._lane.release()


def _os_reason(error: OSError) -> str:
    return str(error.strerror or error).lower()
