"""A server that runs as a child process and speaks over its standard input and output.

A command is often not the server but what starts it: a shell, `npx`, `uv`. So it is made the
leader of a group, and all that it has started ends with it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Self

from demur.errors import InputError
from demur.integrations.mcp_proxy.lines import MAX_MESSAGE_BYTES, LineSplitter

__all__ = ["CHILD_GRACE_S", "ChildUpstream"]

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
        lines = LineSplitter(self._max_bytes)
        while piece := await self._process.stdout.read(_READ_BYTES):
            for line in lines.feed(piece):
                yield line
        for line in lines.end():
            yield line

    async def close(self) -> int:
        """Close its input, send signals if it does not end, and return its exit status."""
        assert self._process.stdin is not None
        # Not awaited: a server that does not read its input would block it for ever.
        self._process.stdin.close()
        by_itself = await self._wait_for_exit()
        for number in _END_SIGNALS:
            if self._process.returncode is not None and not self._group_is_alive():
                break
            self.send_signal(number)
            await self._wait_for_group()
        # The proxy ended it on request of the client, which is no failure.
        return _shell_status(self._process.returncode) if by_itself else 0

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

    async def _wait_for_exit(self) -> bool:
        try:
            await asyncio.wait_for(self._process.wait(), self._grace_s)
        except TimeoutError:
            return False
        return True

    async def _wait_for_group(self) -> None:
        """Wait until the process and its group have ended, or the grace time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._process.wait()
                while self._group_is_alive():  # noqa: ASYNC110 - only direct children can be awaited
                    await asyncio.sleep(_GROUP_POLL_S)


def _shell_status(code: int | None) -> int:
    """Return an exit status as a shell reports it: 128 plus the signal if it was killed."""
    assert code is not None
    return code if code >= 0 else 128 - code
