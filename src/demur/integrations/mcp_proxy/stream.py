"""A stream of messages to an HTTP client."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

__all__ = ["STREAM_TIMEOUT_S", "EventStream"]

# Backpressure: how much may wait for the client, and for how long.
_MAX_WAITING_LINES = 64
_MAX_WAITING_BYTES = 4 * 1024 * 1024
STREAM_TIMEOUT_S = 30.0


class EventStream:
    """A queue of messages in order; it accepts none after its end."""

    def __init__(
        self, *, max_waiting: int = _MAX_WAITING_LINES, timeout_s: float = STREAM_TIMEOUT_S
    ) -> None:
        self._max_waiting = max_waiting
        self._timeout_s = timeout_s
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._size = 0
        self.ended = False

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= self._max_waiting or self._size > _MAX_WAITING_BYTES

    async def put(self, line: bytes) -> bool:
        """Add a message, and return whether it was accepted; a stream that is not read ends."""
        while self._is_full and not self.ended:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), self._timeout_s)
            except TimeoutError:
                self.end()
        if self.ended:
            return False
        self.add(line)
        return True

    def add(self, line: bytes) -> None:
        """Add a message without a limit."""
        self._waiting.append(line)
        self._size += len(line)
        self._more.set()

    def end(self) -> None:
        """Accept no more messages; waiting ones can still be read."""
        self.ended = True
        self._more.set()
        self._room.set()

    async def lines(self, keep_alive_s: float) -> AsyncIterator[bytes]:
        """Yield the messages until the end, and an empty one after each pause of `keep_alive_s`.

        Writing to the connection is the only way to notice that the client is gone.
        """
        while True:
            while self._waiting:
                line = self._waiting.popleft()
                self._size -= len(line)
                self._room.set()
                yield line
            if self.ended:
                return
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), keep_alive_s)
            except TimeoutError:
                yield b""
