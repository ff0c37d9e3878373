"""The client's side of a proxy: this process's standard input and output.

Pipes are waited for with everything else. Files and terminals cannot be: a thread reads them,
without a buffer that could be left locked.
"""

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import AsyncIterator

from demur.integrations.mcp_proxy.lines import MAX_MESSAGE_BYTES, LineSplitter

__all__ = ["StdioDownstream"]

_READ_BYTES = 65_536
# Backpressure: how many pieces the thread reads ahead.
_MAX_WAITING_PIECES = 16


class StdioDownstream:
    """Reads messages from one file descriptor and writes them to another."""

    def __init__(self, source: int, target: int, *, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._source = source
        self._target = target
        self._max_bytes = max_bytes
        self._writing = asyncio.Lock()
        if _is_pipe(target):
            os.set_blocking(target, False)

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the client's lines until it ends; None for a line that is too long."""
        lines = LineSplitter(self._max_bytes)
        async for piece in (
            _read_pipe(self._source) if _is_pipe(self._source) else _read_in_thread(self._source)
        ):
            for line in lines.feed(piece):
                yield line
        for line in lines.end():
            yield line

    async def send(self, line: bytes) -> None:
        """Write one message; concurrent writes do not mix.

        Raises:
            BrokenPipeError: The client is gone.
        """
        async with self._writing:
            left = memoryview(line + b"\n")
            while left:
                try:
                    left = left[os.write(self._target, left) :]
                except BlockingIOError:
                    await _wait_writable(self._target)


async def _wait_writable(target: int) -> None:
    """Wait until a pipe is writable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(target, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(target)


def _is_pipe(source: int) -> bool:
    try:
        mode = os.fstat(source).st_mode
    except OSError:
        return False
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


async def _read_pipe(source: int) -> AsyncIterator[bytes]:
    """Yield data from a pipe."""
    reader = asyncio.StreamReader()
    file = os.fdopen(os.dup(source), "rb", buffering=0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        while piece := await reader.read(_READ_BYTES):
            yield piece
    finally:
        transport.close()


async def _read_in_thread(source: int) -> AsyncIterator[bytes]:
    """Yield data that a thread reads; the thread uses no buffer that could stay locked."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(_MAX_WAITING_PIECES)

    def pump() -> None:
        piece = b"more"
        while piece:
            room.acquire()
            try:
                piece = os.read(source, _READ_BYTES)
            except OSError:
                piece = b""
            # The event loop may close before the client does.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

    threading.Thread(target=pump, name="mcp-proxy-client", daemon=True).start()
    while piece := await pieces.get():
        room.release()
        yield piece
