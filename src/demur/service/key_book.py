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

__all__ = ["KEY_READ_PAUSE_S", "KeyCache"]

T = TypeVar("T")
# Read the keys five times a second at most.
KEY_READ_PAUSE_S = 0.2


class KeyCache(Generic[T]):
    """All keys by digest, cached for `memory_s`. Safe to share between threads.

    `load` returns all keys, and may wait for the store.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[str, T]],
        *,
        memory_s: float,
        pause_s: float = KEY_READ_PAUSE_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._load = load
        self._memory_s = memory_s
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._keys: Mapping[str, T] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._lock = Lock()
        self._reading: asyncio.Future[None] | None = None
        # A thread of its own, so that looking up a key never waits behind other work.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demur-keys")

    def get_cached(self, digest: str) -> T | None:
        """Return a cached key, if the cache is current."""
        return self._keys.get(digest) if self._is_current() else None

    def is_cached_empty(self) -> bool:
        """Return whether the cache is current and empty."""
        return self._is_current() and not self._keys

    async def look_up(self, digest: str) -> T | None:
        """Return a key as stored now; concurrent calls share one reading."""
        await self._refresh()
        return self._keys.get(digest)

    async def is_empty(self) -> bool:
        """Return whether the store holds no key now; concurrent calls share one reading."""
        await self._refresh()
        return not self._keys

    def close(self) -> None:
        """Stop reading keys."""
        self._thread.shutdown(cancel_futures=True)

    def _is_current(self) -> bool:
        read_at = self._read_at
        return read_at is not None and self._monotonic() < read_at + self._memory_s

    async def _refresh(self) -> None:
        asked = self._monotonic()
        while not self._read_since(asked):
            # A reading that has ended but is not cleared yet would be awaited in a busy loop.
            if self._reading is None or self._reading.done():
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._thread, self._read_keys, asked)
                self._reading.add_done_callback(self._finish_reading)
            # A caller that is cancelled must not cancel the reading for the others.
            await asyncio.shield(self._reading)

    def _finish_reading(self, reading: "asyncio.Future[None]") -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            # Waiting callers get the exception; retrieve it here in case none is left.
            reading.exception()

    def _read_since(self, asked_at: float) -> bool:
        return self._read_at is not None and self._read_at >= asked_at

    def _read_keys(self, asked_at: float) -> None:
        with self._lock:
            if self._read_since(asked_at):
                return
            if self._tried_at is not None:
                early = self._tried_at + self._pause_s - self._monotonic()
                if early > 0:
                    self._sleep(early)
            self._tried_at = began = self._monotonic()
            self._keys = self._load()
            self._read_at = began
