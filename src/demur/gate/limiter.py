"""Limiters: who keeps the counts of rate limits. This one keeps them in this process.

A limiter takes a use and tells what it looked like: the state before it and the time. Whether
it was admitted is then the rate guard's pure arithmetic, the same that the limiter went by.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from threading import Lock
from typing import NamedTuple, Protocol

from demur.errors import DemurError, InputError
from demur.guards.rate.guard import RateUse
from demur.guards.rate.limits import RateLimit, RateState, reckon

__all__ = ["Limiter", "LimiterUnavailableError", "LocalLimiter", "SecondsClock", "Taken"]

SecondsClock = Callable[[], float]
_NEW = RateState()
# How many of the oldest keys are looked at when one more is kept.
_SWEPT = 2


class LimiterUnavailableError(DemurError):
    """The counts cannot be reached, and nothing may be admitted without them."""


class Taken(NamedTuple):
    """A use as every limit saw it, and where it was counted: `process` or `redis`.

    `fallback` says that it was counted in the process because Redis could not be reached.
    """

    uses: tuple[RateUse, ...]
    counted: str
    fallback: bool = False


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

    It remembers the `most_keys` keys that were used last, and forgets those first that have
    run empty: a key that is forgotten earlier begins anew, so keep it above the number of
    keys that are in use at a time. The clock tells seconds from any beginning.
    """

    blocking = False

    def __init__(self, *, most_keys: int = 100_000, clock: SecondsClock = time.monotonic) -> None:
        if most_keys < 1:
            raise InputError(f"at least one key is kept, not {most_keys}", where="most_keys")
        self._most = most_keys
        self._clock = clock
        self._kept: OrderedDict[tuple[str, RateLimit], RateState] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> Taken:
        """Return the use as each limit sees it; counted if all of them admit it, else by none."""
        with self._lock:
            now = self._clock()
            uses = tuple(
                RateUse(
                    key=key,
                    limit=limit,
                    cost=cost,
                    now_s=now,
                    state=self._kept.get((key, limit), _NEW),
                )
                for limit in limits
            )
            reckonings = [reckon(use.limit, use.state, now, cost) for use in uses]
            if all(reckoning.admitted for reckoning in reckonings):
                for limit, reckoning in zip(limits, reckonings, strict=True):
                    self._keep((key, limit), reckoning.state)
                self._forget(now)
        return Taken(uses, "process")

    def close(self) -> None:
        """Forget all counts."""
        with self._lock:
            self._kept.clear()

    def _keep(self, place: tuple[str, RateLimit], state: RateState) -> None:
        self._kept[place] = state
        self._kept.move_to_end(place)

    def _forget(self, now: float) -> None:
        """Drop what ran empty among the oldest, and what is too many."""
        for place in list(islice(self._kept, _SWEPT)):
            state, limit = self._kept[place], place[1]
            if state.level <= (now - state.at_s) * limit.rate:
                del self._kept[place]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
