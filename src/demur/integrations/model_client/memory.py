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

__all__ = ["RefusedTexts", "is_refusal", "refused_texts_for"]

_MAX_REFUSED_TEXTS = 4_096


class RefusedTexts:
    """Refused texts, by digest; beyond `max_entries` the oldest are dropped."""

    def __init__(self, max_entries: int = _MAX_REFUSED_TEXTS) -> None:
        self._max_entries = max_entries
        self._digests: dict[bytes, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and _digest_text(text) in self._digests

    def add(self, texts: Iterable[str]) -> None:
        """Add texts; skip empty ones."""
        with self._lock:
            for digest in (_digest_text(text) for text in texts if text.strip()):
                self._digests.pop(digest, None)
                self._digests[digest] = None
            while len(self._digests) > self._max_entries:
                del self._digests[next(iter(self._digests))]


# A client may be guarded anew for each request, so its copies share the refused texts.
_REFUSED_BY_ENFORCER: WeakKeyDictionary[Any, RefusedTexts] = WeakKeyDictionary()


def refused_texts_for(enforcer: Any) -> RefusedTexts:
    """Return the refused texts that all clients of an enforcer or a gate share."""
    return _REFUSED_BY_ENFORCER.setdefault(enforcer, RefusedTexts())


def is_refusal(text: object) -> bool:
    """Return whether a text ends in a refusal line, so that demur wrote it and not a model."""
    return from_openai({"refusal": text}) is not None


def _digest_text(text: str) -> bytes:
    return blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
