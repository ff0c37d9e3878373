"""Seals: by them a note in the state of a graph is known to be the middleware's own.

Whoever may send a graph a whole command can write to its state, and so can write notes. A seal
is made with a key and holds for one thread; a note without one permits nothing.
"""

import hashlib
from collections.abc import Callable
from functools import cache

from demur.errors import InputError
from demur.gate.clock import system_entropy

__all__ = ["Seal", "derive_key", "make_seal"]

_MIN_KEY_LENGTH = 16
_DIGEST_SIZE = 32

# Maps a text to its seal in one thread.
Seal = Callable[[str], str]


def derive_key(given: bytes | None) -> bytes:
    """Return the sealing key: derived from the given secret, or random for this process.

    Raises:
        InputError: The secret is too short.
    """
    if given is None:
        return _process_key()
    if len(given) < _MIN_KEY_LENGTH:
        help_text = f"{_MIN_KEY_LENGTH} random bytes or more"
        raise InputError(f"a key of {len(given)} bytes is too short", where="key", help=help_text)
    return hashlib.blake2b(given, digest_size=_DIGEST_SIZE).digest()


def make_seal(key: bytes, thread: str | None) -> Seal:
    """Return the function that seals texts for a thread."""

    def seal(text: str) -> str:
        sealed = f"{thread!r} {text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(sealed, key=key, digest_size=_DIGEST_SIZE).hexdigest()

    return seal


@cache
def _process_key() -> bytes:
    # One key for the process: agents are often created for each request.
    return system_entropy(_DIGEST_SIZE)
