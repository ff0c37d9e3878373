"""Limits of one process: call rates per key, login attempts per address, and thread pools.

The rate arithmetic is the rate guard's (GCRA), without its evidence because every call pays for it.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.guards.rate import fill_level
from demur.service.problem import ProblemError, unavailable


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
        level = fill_level(level, at, now, self._rate, 1.0)
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


_LOGIN_RATE, _LOGIN_BURST = 1, 20
_TOTAL_LOGIN_RATE, _TOTAL_LOGIN_BURST = 20, 100
_MAX_ADDRESSES = 10_000
# A host usually owns a whole IPv6 network of this prefix, so it counts as one address.
_IPV6_PREFIX_LENGTH = 64


class LoginLimiter:
    """Limits login attempts. Not safe to share between threads.

    A key that is already cached is not counted, so that a flood of made-up keys locks nobody out.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._each = RateBuckets(
            _LOGIN_RATE, _LOGIN_BURST, max_keys=_MAX_ADDRESSES, monotonic=monotonic
        )
        self._all = RateBuckets(_TOTAL_LOGIN_RATE, _TOTAL_LOGIN_BURST, monotonic=monotonic)

    def count_attempt(self, address: str) -> None:
        """Count an attempt from an address.

        Raises:
            ProblemError: There were too many attempts lately.
        """
        wait = self._each.wait_for(_source_network(address)) or self._all.wait_for("")
        if wait:
            headers = {"retry-after": str(max(1, ceil(wait)))}
            code = ReasonCode.RATE_LIMIT
            raise ProblemError(429, code, "too many login attempts", headers=headers)


def _source_network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _IPV6_PREFIX_LENGTH), strict=False))
    return str(parsed)


P = ParamSpec("P")
T = TypeVar("T")


class WorkerPool:
    """Runs `threads` jobs at a time and accepts `max_jobs` in all, running ones included.

    A job counts until its thread has finished it, even if its caller no longer waits.
    """

    def __init__(self, name: str, *, threads: int, max_jobs: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"demur-{name}")
        self._max_jobs = max_jobs
        self._lock = Lock()
        self._jobs = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool rejects another job."""
        return self._jobs >= self._max_jobs

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a thread, and return its result.

        Raises:
            ProblemError: The pool is full or closed.
        """
        with self._lock:
            if self.is_full:
                raise unavailable("service overloaded", ReasonCode.RATE_LIMIT)
            self._jobs += 1
        try:
            job = self._threads.submit(function, *args, **kwargs)
        except RuntimeError:
            self._release_slot(None)
            problem = "the service is shutting down"
            raise ProblemError(503, ReasonCode.INTERNAL_ERROR, problem) from None
        job.add_done_callback(self._release_slot)
        return await asyncio.wrap_future(job)

    def _release_slot(self, _: Future[Any] | None) -> None:
        with self._lock:
            self._jobs -= 1

    def close(self) -> None:
        """Start no more jobs, and wait for those that run."""
        self._threads.shutdown(cancel_futures=True)
