"""Random bytes in stock: every decision takes some, and each trip to the system costs a wait.

The interpreter lets other threads run during such a trip, and a busy one gives the event loop
its turn back only after milliseconds.
"""

from threading import Lock

from demur.gate.clock import Entropy, system_entropy

__all__ = ["EntropyStock"]


class EntropyStock:
    """Hands out bytes of a source, fetched many at a time. Safe to share between threads."""

    def __init__(self, source: Entropy = system_entropy, *, size: int = 4096) -> None:
        self._source = source
        self._size = size
        self._stock = b""
        self._at = 0
        self._lock = Lock()

    def __call__(self, count: int) -> bytes:
        """Return bytes that nobody else gets."""
        with self._lock:
            # INVARIANT: no random byte is handed out twice.
            if self._at + count > len(self._stock):
                self._stock, self._at = self._source(max(self._size, count)), 0
            taken = self._stock[self._at : self._at + count]
            self._at += count
            return taken
