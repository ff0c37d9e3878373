"""A stream of messages to a client over HTTP, held open until the last of them has left."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

__all__ = ["PATIENCE_S", "Stream"]

# How much may wait here before the server has to, and how long for a client that does not read.
_MOST_WAITING = 64
_MOST_BYTES = 4 * 1024 * 1024
PATIENCE_S = 30.0


class Stream:
    """What is put in comes out in its order; nothing more goes in once it has ended."""

    def __init__(self, *, most: int = _MOST_WAITING, patience_s: float = PATIENCE_S) -> None:
        self._most = most
        self._patience_s = patience_s
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._size = 0
        self.ended = False

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= self._most or self._size > _MOST_BYTES

    async def put(self, line: bytes) -> bool:
        """Return whether a message was taken; a stream that nobody reads ends."""
        while self._is_full and not self.ended:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), self._patience_s)
            except TimeoutError:
                self.end()
        if self.ended:
            return False
        self.add(line)
        return True

    def add(self, line: bytes) -> None:
        """Take a message, however many wait."""
        self._waiting.append(line)
        self._size += len(line)
        self._more.set()

    def end(self) -> None:
        """Take nothing more; what waits may still be read."""
        self.ended = True
        self._more.set()
        self._room.set()

    async def lines(self, pause_s: float) -> AsyncIterator[bytes]:
        """Yield what was put in until it ends, and nothing at all whenever a pause was that long.

        Only who writes something learns that nobody is there any more.
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
                await asyncio.wait_for(self._more.wait(), pause_s)
            except TimeoutError:
                yield b""
