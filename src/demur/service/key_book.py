"""The keys as they were stored a moment ago, read at most so often, however many ask.

A flood of made-up keys must not become a flood of questions to the store: everybody who
asks for a key that is not in the book waits for the same next reading of the whole book.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["PAUSE_S", "KeyBook"]

T = TypeVar("T")
# Read the keys five times a second at most.
PAUSE_S = 0.2


class KeyBook(Generic[T]):
    """All keys by digest, cached for `memory_s`. Safe to share between threads.

    `load` returns all keys, and may wait for the store.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[str, T]],
        *,
        memory_s: float,
        pause_s: float = PAUSE_S,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._load = load
        self._memory_s = memory_s
        self._pause_s = pause_s
        self._seconds = seconds
        self._sleep = sleep
        self._page: Mapping[str, T] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._lock = Lock()
        self._reading: asyncio.Future[None] | None = None
        # A thread of its own, so that looking up a key never waits behind other work.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demur-keys")

    def known(self, digest: str) -> T | None:
        """Return a cached key, if the cache is current."""
        return self._page.get(digest) if self._is_good() else None

    def known_empty(self) -> bool:
        """Return whether the cache is current and empty."""
        return self._is_good() and not self._page

    async def look_up(self, digest: str) -> T | None:
        """Return a key as stored now; concurrent calls share one reading."""
        await self._refresh()
        return self._page.get(digest)

    async def is_empty(self) -> bool:
        """Return whether the store holds no key now; concurrent calls share one reading."""
        await self._refresh()
        return not self._page

    def close(self) -> None:
        """Stop reading keys."""
        self._thread.shutdown(cancel_futures=True)

    def _is_good(self) -> bool:
        read_at = self._read_at
        return read_at is not None and self._seconds() < read_at + self._memory_s

    async def _refresh(self) -> None:
        asked = self._seconds()
        while not self._read_since(asked):
            # A reading that has ended but is not cleared yet would be awaited in a busy loop.
            if self._reading is None or self._reading.done():
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._thread, self._read, asked)
                self._reading.add_done_callback(self._done)
            # A caller that is cancelled must not cancel the reading for the others.
            await asyncio.shield(self._reading)

    def _done(self, reading: "asyncio.Future[None]") -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            # Waiting callers get the exception; retrieve it here in case none is left.
            reading.exception()

    def _read_since(self, asked: float) -> bool:
        return self._read_at is not None and self._read_at >= asked

    def _read(self, asked: float) -> None:
        with self._lock:
            if self._read_since(asked):
                return
            if self._tried_at is not None:
                early = self._tried_at + self._pause_s - self._seconds()
                if early > 0:
                    self._sleep(early)
            self._tried_at = began = self._seconds()
            self._page = self._load()
            self._read_at = began
