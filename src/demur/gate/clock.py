"""The edge where time, randomness and ids enter. Everything further in gets them as arguments.

Ids are ULIDs: they sort by the time at which they were made and rise strictly within a process.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]


def system_clock() -> datetime:
    """Return the system time in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the gate's edge is where the clock enters


def system_entropy(count: int) -> bytes:
    """Return random bytes of the operating system."""
    return os.urandom(count)


def format_timestamp(moment: datetime) -> str:
    """Return a time in the format of records: UTC, milliseconds, `Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 80
_TEN = (1 << 10) - 1
_SHIFTS = range(120, -1, -10)


def make_ulid(milliseconds: int, randomness: int) -> str:
    """Return the ULID for a time and 80 random bits."""
    number = (milliseconds << _RANDOM_BITS) | randomness
    return "".join([_PAIRS[(number >> shift) & _TEN] for shift in _SHIFTS])


class IdSource:
    """Makes unique ids, even if the clock stops or goes back."""

    def __init__(self, clock: Clock = system_clock, entropy: Entropy = system_entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._lock = Lock()
        self._last = (0, 0)

    def __call__(self, moment: datetime | None = None) -> str:
        """Return a new id for `moment` or now; it is greater than all before."""
        now = int((self._clock() if moment is None else moment).timestamp() * 1000)
        fresh = int.from_bytes(self._entropy(_RANDOM_BITS // 8), "big")
        with self._lock:
            before, used = self._last
            # INVARIANT: ids rise strictly, whatever the clock does.
            if now > before:
                self._last = (now, fresh)
            elif used + 1 < 1 << _RANDOM_BITS:
                self._last = (before, used + 1)
            else:
                self._last = (before + 1, fresh)
            return make_ulid(*self._last)
