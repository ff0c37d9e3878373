"""Both ends of the proxy over pipes, and the relay that carries messages between them.

A command is often not the server but starts it: a shell, `npx`, `uv`. So the child becomes the
leader of a process group, and the whole group ends with it. Pipes are awaited on the event loop;
files and terminals are read by a thread.
"""

import asyncio
import contextlib
import os
import signal
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, Self, runtime_checkable

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.errors import InputError
from demur.integrations.mcp_proxy.guard import ConnectionGuard, ProxyOutput


class Peer(Protocol):
    """One side of the proxy: it sends and receives lines."""

    async def send(self, line: bytes) -> None:
        """Send a message; one for a server that is gone is lost.

        Raises:
            BrokenPipeError: The peer is gone.
        """

    def lines(self) -> AsyncIterator[bytes | None]:
        """Yield its lines until it is gone; None for a line that is too long."""


class Upstream(Peer, Protocol):
    """The server's side, which the proxy closes."""

    async def close(self) -> int:
        """Close it, and return its exit status."""


@runtime_checkable
class PausingUpstream(Protocol):
    """A server that may end the stream of a request that it answers later: it calls `on_pause`."""

    on_pause: Callable[[rpc.RequestKey], None] | None


MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class LineSplitter:
    """Splits data into lines; a line that is too long becomes None and is not buffered."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._skips = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that `data` completes, without line ends and blank lines."""
        done: list[bytes | None] = []
        *ended, last = data.split(b"\n")
        for piece in ended:
            self._append_piece(piece)
            self._finish_line(done)
        self._append_piece(last)
        return done

    def end(self) -> list[bytes | None]:
        """Return the last line, if the stream ended within one."""
        done: list[bytes | None] = []
        self._finish_line(done)
        return done

    def _append_piece(self, piece: bytes) -> None:
        if self._skips:
            return
        if len(self._rest) + len(piece) > self._max_bytes:
            self._rest.clear()
            self._skips = True
        else:
            self._rest += piece

    def _finish_line(self, done: list[bytes | None]) -> None:
        line = bytes(self._rest).strip()
        if self._skips:
            done.append(None)
        elif line:
            done.append(line)
        self._rest.clear()
        self._skips = False


async def _split_lines(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes | None]:
    lines = LineSplitter(max_bytes)
    async for piece in pieces:
        for line in lines.feed(piece):
            yield line
    for line in lines.end():
        yield line


async def _read_pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_READ_BYTES):
        yield piece


# How long a server may take to end by itself, and again after each signal.
CHILD_GRACE_S = 2.0
_READ_BYTES = 65_536
_GROUP_POLL_S = 0.02
_HAS_GROUPS = os.name == "posix"
# Without SIGKILL, SIGTERM has killed the process already.
_END_SIGNALS = (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM))


class ChildUpstream:
    """The server as a child process; it shares stderr with the proxy."""

    def __init__(self, process: asyncio.subprocess.Process, max_bytes: int, grace_s: float) -> None:
        self._process = process
        self._max_bytes = max_bytes
        self._grace_s = grace_s

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        max_bytes: int = MAX_MESSAGE_BYTES,
        grace_s: float = CHILD_GRACE_S,
    ) -> Self:
        """Start the server with a command.

        Raises:
            InputError: It cannot be started.
        """
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, start_new_session=_HAS_GROUPS
            )
        # NUL in a word raises ValueError, not OSError.
        except (OSError, ValueError) as error:
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise InputError(f"cannot start the server: {reason}", where=command[0]) from error
        return cls(process, max_bytes, grace_s)

    async def send(self, line: bytes) -> None:
        """Send a message; it is lost if the server is gone."""
        assert self._process.stdin is not None
        # The reader of its output notices that it is gone.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the lines of its output until it ends; None for a line that is too long."""
        assert self._process.stdout is not None
        async for line in _split_lines(_read_pieces(self._process.stdout), self._max_bytes):
            yield line

    async def close(self) -> int:
        """Close its input, send signals if it does not end, and return its exit status."""
        assert self._process.stdin is not None
        # Not awaited: a server that does not read its input would block it for ever.
        self._process.stdin.close()
        await asyncio.wait({asyncio.ensure_future(self._process.wait())}, timeout=self._grace_s)
        status = self._process.returncode
        for number in _END_SIGNALS:
            if self._process.returncode is not None and not self._group_is_alive():
                break
            self.send_signal(number)
            await self._wait_for_group()
        # The proxy ended it on request of the client, which is no failure.
        if status is None:
            return 0
        # As a shell reports it: 128 plus the signal if it was killed.
        return status if status >= 0 else 128 - status

    def send_signal(self, number: int) -> None:
        """Send a signal to the server and its process group."""
        # Processes of other users cannot be signalled.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if _HAS_GROUPS:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    def _group_is_alive(self) -> bool:
        """Return whether a process of its group is still running."""
        if not _HAS_GROUPS:
            return False
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _wait_for_group(self) -> None:
        """Wait until the process and its group have ended, or the grace time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._process.wait()
                while self._group_is_alive():  # noqa: ASYNC110 - only direct children can be awaited
                    await asyncio.sleep(_GROUP_POLL_S)


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
        read = _read_pipe if _is_pipe(self._source) else _read_in_thread
        async for line in _split_lines(read(self._source), self._max_bytes):
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
        async for piece in _read_pieces(reader):
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


# How long to wait for the last messages of a closed server, and for the client to read them.
_DRAIN_S = 2.0


async def relay_messages(
    guard: ConnectionGuard, client: Peer, server: Upstream, stopped: asyncio.Event | None = None
) -> int:
    """Relay messages until one side ends, and return the server's exit status.

    If the client ends, the relay closes the server. If the server ends, every open request of
    the client gets an error. `stopped` ends both.
    """

    async def carry(source: Peer, check: Callable[[bytes | None], Awaitable[ProxyOutput]]) -> None:
        async for line in source.lines():
            output = await check(line)
            for message in output.to_server:
                await server.send(message)
            for message in output.to_client:
                await client.send(message)

    inbound = asyncio.create_task(carry(client, guard.from_client))
    outbound = asyncio.create_task(carry(server, guard.from_server))
    stopping = asyncio.create_task((stopped or asyncio.Event()).wait())
    try:
        await asyncio.wait({inbound, outbound, stopping}, return_when=asyncio.FIRST_COMPLETED)
        # A server may still send messages after it was closed.
        status = await server.close()
        await asyncio.wait({outbound}, timeout=_DRAIN_S)
        with contextlib.suppress(BrokenPipeError, TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for line in guard.fail_open_requests(f"the server is gone (status {status})"):
                    await client.send(line)
    finally:
        for task in (inbound, outbound, stopping):
            task.cancel()
        ended = await asyncio.gather(inbound, outbound, stopping, return_exceptions=True)
    for problem in ended:
        if isinstance(problem, Exception) and not isinstance(problem, BrokenPipeError):
            raise problem
    return status
