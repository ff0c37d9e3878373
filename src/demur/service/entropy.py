"""A buffer of random bytes, so that a decision does not wait for the system.

A system call releases the interpreter lock, and a busy thread gives it back to the event loop
only after milliseconds.
"""

from threading import Lock

from demur.gate.clock import Entropy, system_entropy

__all__ = ["RandomBuffer"]


class RandomBuffer:
    """Hands out random bytes that were read in large blocks. Safe to share between threads.

    The system call for random bytes releases the interpreter lock, and a busy thread gives it
    back to the event loop only after milliseconds.
    """

    def __init__(self, source: Entropy = system_entropy, *, size: int = 4096) -> None:
        self._source = source
        self._size = size
        self._buffer = b""
        self._position = 0
        self._lock = Lock()

    def __call__(self, count: int) -> bytes:
        """Return bytes that are handed out only once."""
        with self._lock:
            # INVARIANT: no random byte is handed out twice.
            if self._position + count > len(self._buffer):
                self._buffer, self._position = self._source(max(self._size, count)), 0
            taken = self._buffer[self._position : self._position + count]
            self._position += count
            return taken
