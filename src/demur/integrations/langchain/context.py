"""The context of a hook: its enforcer, call context and seal.

A client that may send commands to a graph can write notes into its state. A seal shows that the
middleware wrote a note, for this thread.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.clock import system_entropy

FRAMEWORK = "langchain"
_MIN_KEY_LENGTH = 16
_DIGEST_SIZE = 32

# Maps a text to its seal in one thread.
Seal = Callable[[str], str]


class HookContext(NamedTuple):
    """The enforcer, the call context and the seal of one hook."""

    enforcer: Enforcer
    context: CallContext
    seal: Seal


def find_run_id(runtime: Any) -> str | None:
    """Return the id of the runtime's thread or run, or None."""
    info = getattr(runtime, "execution_info", None)
    return getattr(info, "thread_id", None) or getattr(info, "run_id", None)


def derive_key(secret: bytes | None) -> bytes:
    """Return the sealing key: derived from the given secret, or random for this process.

    Raises:
        InputError: The secret is too short.
    """
    if secret is None:
        return _process_key()
    if len(secret) < _MIN_KEY_LENGTH:
        help_text = f"{_MIN_KEY_LENGTH} random bytes or more"
        raise InputError(f"a key of {len(secret)} bytes is too short", where="key", help=help_text)
    return hashlib.blake2b(secret, digest_size=_DIGEST_SIZE).digest()


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
