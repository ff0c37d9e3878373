"""Limits of one process: rates and work budgets per key, login attempts per address, thread pools.

The rate arithmetic is the rate guard's (GCRA), without its evidence because every call pays for it.
"""

import asyncio
import os
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from importlib import import_module
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from mmap import mmap
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, ParamSpec, TypeVar

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


# A digest of the key, the level of its bucket, and when that was.
_SHARED_SLOT = struct.Struct("<16sdd")
_MAX_PROBES = 32


class SharedRateBuckets:
    """`RateBuckets` that the processes of one machine share: in a file, which each of them maps.

    A key has one of the slots that follow from its digest. A slot whose bucket is empty is free for
    another key; while none is, a new key waits. The clock has to be the same in all processes.
    """

    def __init__(
        self,
        path: Path,
        rate: float,
        burst: int,
        *,
        slots: int = 4096,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fcntl = import_module("fcntl")
        self._rate = rate
        self._burst = burst
        self._slots = slots
        self._monotonic = monotonic
        size = slots * _SHARED_SLOT.size
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.truncate(self._file, size)
        self._map = mmap(self._file, size)

    def wait_for(self, key: str) -> float:
        """Count a call and return 0, or return the seconds to wait if it is over the limit."""
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self._fcntl.lockf(self._file, self._fcntl.LOCK_EX)
        try:
            return self._count_call(digest, self._monotonic())
        finally:
            self._fcntl.lockf(self._file, self._fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        self._map.close()
        os.close(self._file)

    def _count_call(self, digest: bytes, now: float) -> float:
        place, level, at = self._find_slot(digest, now)
        if place is None:
            return 1 / self._rate
        level = fill_level(level, at, now, self._rate, 1.0)
        if level > self._burst:
            return (level - self._burst) / self._rate
        _SHARED_SLOT.pack_into(self._map, place, digest, level, now)
        return 0.0

    def _find_slot(self, digest: bytes, now: float) -> tuple[int | None, float, float]:
        """Return the place of a key's slot, or of a free one, with its level and time."""
        first = int.from_bytes(digest[:8], "big")
        free: int | None = None
        for step in range(_MAX_PROBES):
            place = (first + step) % self._slots * _SHARED_SLOT.size
            owner, level, at = _SHARED_SLOT.unpack_from(self._map, place)
            if owner == digest:
                return place, level, at
            if free is None and level <= (now - at) * self._rate:
                free = place
            if not any(owner):
                # Nobody was ever here, so the key cannot be further on.
                break
        return free, 0.0, now


class _Spent(NamedTuple):
    """What a key has used and not regained yet: bytes and seconds of processor time."""

    size: float = 0.0
    cpu_s: float = 0.0
    at_s: float = 0.0


# A key that used this much processor time lately is busy: its work leaves the event loop.
_BUSY_CPU_S = 0.1
# Keys that owe nothing are forgotten at this number.
_MAX_BUDGET_KEYS = 10_000


class WorkBudgets:
    """Bytes and processor time that each key may use in `window_s`. Safe to share between threads.

    Work is charged once it is done. A key over its budget is refused until it has regained enough.
    """

    def __init__(
        self,
        window_s: float,
        *,
        max_bytes: int,
        max_cpu_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window_s = window_s
        self._max_bytes = max_bytes
        self._max_cpu_s = max_cpu_s
        self._monotonic = monotonic
        self._lock = Lock()
        self._spent: dict[str, _Spent] = {}

    def charge(self, key: str, *, size: int = 0, cpu_s: float = 0.0) -> None:
        """Charge a key for work that was done."""
        with self._lock:
            spent = self._current(key)
            if len(self._spent) >= _MAX_BUDGET_KEYS:
                current = {one: self._current(one) for one in self._spent}
                self._spent = {one: left for one, left in current.items() if left[:2] != (0, 0)}
            added = spent._replace(size=spent.size + size, cpu_s=spent.cpu_s + cpu_s)
            self._spent[key] = added

    def require_left(self, key: str) -> None:
        """Require that a key has something left of each budget.

        Raises:
            ProblemError: A budget is used up.
        """
        # INVARIANT: a key over its budget gets no answer but 429 until it has regained enough.
        if key not in self._spent:
            return
        with self._lock:
            spent = self._current(key)
        for used, limit, unit, setting in (
            (spent.size, self._max_bytes, "bytes", "budget_bytes"),
            (spent.cpu_s, self._max_cpu_s, "s of processor time", "budget_cpu_s"),
        ):
            if used > limit:
                wait = max(1, ceil((used - limit) * self._window_s / limit))
                raise ProblemError(
                    429,
                    ReasonCode.RATE_LIMIT,
                    f"this key used more than {limit:g} {unit} in {self._window_s:g} s",
                    where=setting,
                    help="send less, or raise the setting under [service]",
                    headers={"retry-after": str(wait)},
                    evidence={"retry_after": wait, "limit": limit, "window": self._window_s},
                )

    def is_busy(self, key: str) -> bool:
        """Return whether a key used much processor time lately."""
        spent = self._spent.get(key)
        if spent is None or spent.cpu_s < _BUSY_CPU_S:
            return False
        with self._lock:
            return self._current(key).cpu_s >= _BUSY_CPU_S

    def _current(self, key: str) -> _Spent:
        now = self._monotonic()
        size, cpu_s, at_s = self._spent.get(key, _Spent())
        return _Spent(
            fill_level(size, at_s, now, self._max_bytes / self._window_s, 0.0),
            fill_level(cpu_s, at_s, now, self._max_cpu_s / self._window_s, 0.0),
            now,
        )


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


class _PoolJob(NamedTuple):
    """A job that waits for a thread, and the key that it is done for."""

    key: str | None
    call: Callable[[], Any]
    future: "Future[Any]"


class WorkerPool:
    """Runs `threads` jobs at a time and accepts `max_jobs` in all, running ones included.

    Keys take turns. One key never has more than half of the threads and jobs, so that it cannot
    keep others waiting. A job counts until its thread has finished it, even if its caller
    no longer waits. `on_cpu` is called with the processor time of each job of a key.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        max_jobs: int,
        on_cpu: Callable[[str, float], None] | None = None,
    ) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"demur-{name}")
        self._threads = threads
        self._max_jobs = max_jobs
        self._on_cpu = on_cpu
        self._lock = Lock()
        self._jobs = 0
        self._running = 0
        self._closed = False
        # Jobs of each key, and those that run. The key whose turn it is comes first.
        self._waiting: dict[str | None, deque[_PoolJob]] = {}
        self._counts: Counter[str | None] = Counter()
        self._busy: Counter[str | None] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether the pool rejects another job."""
        return self._jobs >= self._max_jobs

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function of the service itself on a thread, and return its result.

        Raises:
            ProblemError: The pool is full or closed.
        """
        return await self.run_for(None, function, *args, **kwargs)

    async def run_for(
        self, key: str | None, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a blocking function for a key on a thread, and return its result.

        Raises:
            ProblemError: The pool is full or closed, or the key has too many jobs in it.
        """
        job = _PoolJob(key, partial(function, *args, **kwargs), Future())
        with self._lock:
            if self._closed:
                problem = "the service is shutting down"
                raise ProblemError(503, ReasonCode.INTERNAL_ERROR, problem)
            most = self._max_jobs if key is None else max(1, self._max_jobs // 2)
            if self.is_full or self._counts[key] >= most:
                raise unavailable("service overloaded", ReasonCode.RATE_LIMIT)
            self._jobs += 1
            self._counts[key] += 1
            self._waiting.setdefault(key, deque()).append(job)
            self._start_jobs()
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._drop(job)
            raise

    def _start_jobs(self) -> None:
        """Start waiting jobs while there are free threads; under the lock."""
        for key in list(self._waiting):
            if self._running >= self._threads:
                return
            if key is not None and self._busy[key] >= max(1, self._threads // 2):
                continue
            jobs = self._waiting.pop(key)
            job = jobs.popleft()
            if jobs:
                self._waiting[key] = jobs
            self._running += 1
            self._busy[key] += 1
            self._executor.submit(self._work, job)

    def _work(self, job: _PoolJob) -> None:
        result: Any = None
        error: BaseException | None = None
        runs = job.future.set_running_or_notify_cancel()
        began = time.thread_time()
        try:
            result = job.call() if runs else None
        except BaseException as raised:  # noqa: BLE001 - the caller raises it, not this thread
            error = raised
        if job.key is not None and self._on_cpu is not None:
            self._on_cpu(job.key, time.thread_time() - began)
        with self._lock:
            self._running -= 1
            self._busy[job.key] -= 1
            self._release(job)
            self._start_jobs()
        if runs and error is not None:
            job.future.set_exception(error)
        elif runs:
            job.future.set_result(result)

    def _drop(self, job: _PoolJob) -> None:
        """Forget a job whose caller no longer waits, unless it runs already."""
        with self._lock:
            jobs = self._waiting.get(job.key, ())
            if jobs and job in jobs:
                jobs.remove(job)
                if not jobs:
                    del self._waiting[job.key]
                self._release(job)

    def _release(self, job: _PoolJob) -> None:
        self._jobs -= 1
        self._counts[job.key] -= 1
        if not self._counts[job.key]:
            del self._counts[job.key], self._busy[job.key]

    def close(self) -> None:
        """Start no more jobs, and wait for those that run."""
        with self._lock:
            self._closed = True
            left = [job for jobs in self._waiting.values() for job in jobs]
            self._waiting.clear()
            for job in left:
                self._release(job)
        for job in left:
            job.future.cancel()
        self._executor.shutdown()
