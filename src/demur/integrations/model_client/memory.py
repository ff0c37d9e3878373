"""What was refused before, so that it does not pass as history once something stands below it.

Whoever keeps a conversation puts our refusal where an answer stands, or some words of their
own. Neither is an answer of a model to what stands above: that was never let through.
"""

from collections.abc import Iterable
from hashlib import blake2b
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from demur.emit.openai import from_openai

__all__ = ["Memory", "is_refusal", "memory_of"]

_MOST = 4_096


class Memory:
    """Refused texts, by digest; beyond `max_entries` the oldest are dropped."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._digests: dict[bytes, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and _digest(text) in self._digests

    def add(self, texts: Iterable[str]) -> None:
        """Add texts; skip empty ones."""
        with self._lock:
            for digest in (_digest(text) for text in texts if text.strip()):
                self._digests.pop(digest, None)
                self._digests[digest] = None
            while len(self._digests) > self._most:
                del self._digests[next(iter(self._digests))]


# A client may be guarded anew for each request, so its copies share the refused texts.
_MEMORIES: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


def memory_of(by: Any) -> Memory:
    """Return the refused texts that all clients of an enforcer or a gate share."""
    return _MEMORIES.setdefault(by, Memory())


def is_refusal(text: object) -> bool:
    """Return whether a text ends in a refusal line, so that demur wrote it and not a model."""
    return from_openai({"refusal": text}) is not None


def _digest(text: str) -> bytes:
    return blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
