"""Seals: by them a note in the state of a graph is known to be the middleware's own.

Whoever may send a graph a whole command can write to its state, and so can write notes. A seal
is made with a key and holds for one thread; a note without one permits nothing.
"""

import hashlib
from collections.abc import Callable
from functools import cache

from demur.errors import InputError
from demur.gate.clock import system_entropy

__all__ = ["Seal", "key_of", "sealing"]

_SHORTEST = 16
_SIZE = 32

# Maps a text to its seal in one thread.
Seal = Callable[[str], str]


def key_of(given: bytes | None) -> bytes:
    """Return the sealing key: derived from the given secret, or random for this process.

    Raises:
        InputError: The secret is too short.
    """
    if given is None:
        return _own_key()
    if len(given) < _SHORTEST:
        help_text = f"{_SHORTEST} random bytes or more"
        raise InputError(f"a key of {len(given)} bytes is too short", where="key", help=help_text)
    return hashlib.blake2b(given, digest_size=_SIZE).digest()


def sealing(key: bytes, thread: str | None) -> Seal:
    """Return the function that seals texts for a thread."""

    def seal(text: str) -> str:
        sealed = f"{thread!r} {text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(sealed, key=key, digest_size=_SIZE).hexdigest()

    return seal


@cache
def _own_key() -> bytes:
    # One key for the process: agents are often created for each request.
    return system_entropy(_SIZE)
