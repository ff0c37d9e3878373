"""How often each key calls, counted in this process: one bucket a key, two numbers each.

The arithmetic is that of the rate guard (GCRA); it is done here without its evidence, since
every call pays for it.
"""

import time
from collections.abc import Callable

__all__ = ["RateBuckets"]


class RateBuckets:
    """At most `rate` calls a second for each key on average, and `burst` at once.

    There is a bucket for each key, `max_keys` at most: then a new key waits until an idle bucket
    is dropped. Not safe to share between threads.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        max_keys: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._max_keys = max_keys
        self._monotonic = monotonic
        self._levels: dict[str, tuple[float, float]] = {}

    def wait_for(self, key: str) -> float:
        """Count a call and return 0, or return the seconds to wait if it is over the limit."""
        now = self._monotonic()
        if key not in self._levels and not self._has_room(now):
            return 1 / self._rate
        level, at = self._levels.get(key, (0.0, now))
        # INVARIANT: a key never calls more often than its burst and its rate allow.
        level = max(0.0, level - (now - at) * self._rate) + 1.0
        if level > self._burst:
            return (level - self._burst) / self._rate
        self._levels[key] = (level, now)
        return 0.0

    def _has_room(self, now: float) -> bool:
        """Return whether there is room for one more key, after empty buckets were dropped."""
        if self._max_keys is None:
            return True
        if len(self._levels) >= self._max_keys:
            self._levels = {
                key: (level, at)
                for key, (level, at) in self._levels.items()
                if level > (now - at) * self._rate
            }
        return len(self._levels) < self._max_keys
