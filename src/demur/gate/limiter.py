"""Limiters: who keeps the counts of rate limits. This one keeps them in this process.

A limiter takes a use and tells what it looked like: the state before it and the time. Whether
it was admitted is then the rate guard's pure arithmetic, the same that the limiter went by.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from threading import Lock
from typing import NamedTuple, Protocol

from demur.errors import DemurError, InputError
from demur.guards.rate.guard import RateUse
from demur.guards.rate.limits import RateLimit, RateState, reckon

__all__ = ["Limiter", "LimiterUnavailableError", "LocalLimiter", "SecondsClock", "Taken"]

SecondsClock = Callable[[], float]
_NEW = RateState()
# How many keys that may have run empty are looked at whenever something is used.
_SWEPT = 2


class LimiterUnavailableError(DemurError):
    """The counts cannot be reached, and nothing may be admitted without them."""


class Taken(NamedTuple):
    """A use as every limit saw it, and where it was counted: `process` or `redis`.

    `fallback` says that it was counted in the process because Redis could not be reached.
    `full` says that there was no room to count it, so that it must not be admitted, and how
    many seconds it may take until there is.
    """

    uses: tuple[RateUse, ...]
    counted: str
    fallback: bool = False
    full: float | None = None


class Limiter(Protocol):
    """Keeps counts. `blocking` says that `take` may wait for a network."""

    blocking: bool

    def take(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> Taken:
        """Return the use as each limit sees it; counted if all of them admit it, else by none.

        Raises:
            LimiterUnavailableError: The counts cannot be reached.
        """

    def close(self) -> None:
        """Let go of what it holds open."""


class LocalLimiter:
    """Counts in this process. Safe to share between threads.

    It counts for `most_keys` keys at a time and forgets those that have run empty. As long as
    none has, a new key is refused: nobody can shake off a limit by making up many keys. The
    clock tells seconds from any beginning.
    """

    blocking = False

    def __init__(self, *, most_keys: int = 100_000, clock: SecondsClock = time.monotonic) -> None:
        if most_keys < 1:
            raise InputError(f"at least one key is kept, not {most_keys}", where="most_keys")
        self._most = most_keys
        self._clock = clock
        self._kept: dict[str, dict[RateLimit, RateState]] = {}
        # When each key is empty at the earliest; a key that was used since is put back.
        self._empty: list[tuple[float, str]] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> Taken:
        """Return the use as each limit sees it; counted if all of them admit it, else by none."""
        with self._lock:
            now = self._clock()
            kept = self._kept.get(key, {})
            uses = tuple(
                RateUse(key=key, limit=limit, cost=cost, now_s=now, state=kept.get(limit, _NEW))
                for limit in limits
            )
            reckonings = [reckon(use.limit, use.state, now, cost) for use in uses]
            if not uses or not all(reckoning.admitted for reckoning in reckonings):
                return Taken(uses, "process")
            self._forget(now, key)
            # INVARIANT: a key that has not run empty is never forgotten, however many there are.
            if key not in self._kept and len(self._kept) >= self._most:
                return Taken(uses, "process", full=max(0.0, self._empty[0][0] - now))
            states = {limit: each.state for limit, each in zip(limits, reckonings, strict=True)}
            self._keep(key, {**self._kept.get(key, {}), **states})
        return Taken(uses, "process")

    def close(self) -> None:
        """Forget all counts."""
        with self._lock:
            self._kept.clear()
            self._empty.clear()

    def _keep(self, key: str, states: dict[RateLimit, RateState]) -> None:
        if key not in self._kept:
            heappush(self._empty, (_empty_at(states), key))
        self._kept[key] = states

    def _forget(self, now: float, key: str) -> None:
        """Drop a few keys that ran empty; as many as it takes where there is no room left."""
        looked = 0
        while self._empty and self._empty[0][0] <= now:
            needed = key not in self._kept and len(self._kept) >= self._most
            if looked >= _SWEPT and not needed:
                return
            looked += 1
            oldest = self._empty[0][1]
            empty = _empty_at(self._kept[oldest])
            if empty > now:
                heapreplace(self._empty, (empty, oldest))
            else:
                heappop(self._empty)
                del self._kept[oldest]


def _empty_at(states: Mapping[RateLimit, RateState]) -> float:
    """Return when all that was counted has run out."""
    return max(state.at_s + state.level / limit.rate for limit, state in states.items())
