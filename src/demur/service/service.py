"""The parts that a running service is made of, put together once and shared by all calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil, inf
from threading import Lock
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.gate.clock import Clock, system_clock
from demur.gate.gate import Gate
from demur.gate.limiter import Limiter
from demur.gate.rate_guard import RateGuard
from demur.guards.rate.limits import RateLimit
from demur.service.access import LOCAL, Doorkeeper, Principal
from demur.service.buckets import Buckets
from demur.service.logins import Logins
from demur.service.pool import Pool, busy
from demur.service.problem import ProblemError
from demur.service.settings import ServiceSettings, is_loopback
from demur.store.store import Store

if TYPE_CHECKING:
    from demur.observe.metrics import Metrics

__all__ = ["Service"]

P = ParamSpec("P")
T = TypeVar("T")
# Store reads, pages, logs and shared counts have a pool each, so that no kind of work queues
# behind another. A full pool rejects work at once.
_THREADS = 4
_MOST_WAITING = 256
_MOST_PAGES = 64
# Logs are large, and stay in memory while they are scanned.
_MOST_LOGS = 4
_LOG_THREADS = 2


class Service:
    """A gate, and everything that the routes need beside it. The caller owns the gate.

    `sample` says that the store holds sample decisions, which the dashboard shows. Calls are
    counted in this process, or by a `limiter` that several processes share.
    """

    def __init__(
        self,
        gate: Gate,
        settings: ServiceSettings | None = None,
        *,
        metrics: "Metrics | None" = None,
        limiter: Limiter | None = None,
        clock: Clock = system_clock,
        sample: bool = False,
    ) -> None:
        self.gate = gate
        self.settings = ServiceSettings() if settings is None else settings
        self.metrics = metrics
        self.clock = clock
        self.sample = sample
        self.closing = False
        # No caller is left to answer: running jobs have to end.
        self.ended = False
        # When the store last answered, for `/ready`.
        self.checked_at = -inf
        # The surfaces whose guards have compiled their rules.
        self.warm: set[str] = set()
        self.doorkeeper = Doorkeeper(
            gate.store,
            open_to_local=_is_private(self.settings),
            memory_s=self.settings.key_memory_s,
            clock=clock,
        )
        rate, burst = self.settings.rate, self.settings.burst
        self._buckets = Buckets(rate, burst)
        limit = RateLimit(count=rate, per_s=1.0, burst=burst)
        self._shared = None if limiter is None else RateGuard(limit, limiter=limiter)
        self._lock = Lock()
        self._closers: list[Callable[[], None]] = []
        self.logins = Logins()
        self._reading = Pool("service", threads=_THREADS, most=_MOST_WAITING)
        self._pages = Pool("pages", threads=_THREADS, most=_MOST_PAGES)
        self._counting = Pool("counts", threads=_THREADS, most=_MOST_WAITING)
        self._scanning = Pool("logs", threads=_LOG_THREADS, most=_MOST_LOGS)
        self._logs = 0

    @property
    def store(self) -> Store:
        """The store of the decisions.

        Raises:
            ProblemError: The gate has no store.
        """
        if self.gate.store is None:
            raise ProblemError(
                503, ReasonCode.STORAGE_UNAVAILABLE, "this service stores no decisions"
            )
        return self.gate.store

    async def work(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a thread, and return its result.

        Raises:
            ProblemError: Too many calls are waiting already.
        """
        return await self._reading.run(function, *args, **kwargs)

    async def show(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that renders a page, and return its result.

        Raises:
            ProblemError: Too many pages are waiting already.
        """
        return await self._pages.run(function, *args, **kwargs)

    async def scan(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that scans a log within `limit_log_scan`, and return its result.

        Raises:
            ProblemError: Too many logs are being scanned.
        """
        return await self._scanning.run(function, *args, **kwargs)

    @contextmanager
    def taking_log(self) -> Iterator[None]:
        """Reserve a slot for a log while it is read and scanned.

        Raises:
            ProblemError: All slots are taken.
        """
        with self._lock:
            if self._logs >= _MOST_LOGS or self._scanning.is_full:
                raise busy()
            self._logs += 1
        try:
            yield
        finally:
            with self._lock:
                self._logs -= 1

    async def count(self, caller: Principal) -> None:
        """Count a call; local calls without a key are not counted.

        Raises:
            ProblemError: The caller exceeds its rate.
            LimiterUnavailableError: The shared limiter cannot be reached.
        """
        if caller is LOCAL:
            return
        if self._shared is None:
            wait = self._buckets.wait(caller.name)
        else:
            key = f"service:{caller.name}"
            wait = await self._counting.run(_shared_wait, self._shared, key)
        if wait:
            seconds = max(1, ceil(wait))
            raise ProblemError(
                429,
                ReasonCode.RATE_LIMIT,
                f"this key calls more than {self.settings.rate} times a second",
                headers={"retry-after": str(seconds)},
                evidence={"retry_after": seconds},
            )

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call a function when the service closes."""
        with self._lock:
            self._closers.append(closer)

    def close(self) -> None:
        """Close what the service opened; the gate stays open."""
        self.closing = self.ended = True
        for pool in (self._scanning, self._pages, self._reading, self._counting):
            pool.close()
        self.doorkeeper.close()
        with self._lock:
            closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        if self._shared is not None:
            self._shared.limiter.close()


def _shared_wait(counts: RateGuard, key: str) -> float:
    """Return how long a caller has to wait under the limit that all workers share."""
    waits = [found.evidence.get("retry_after") or 1.0 for found in counts.check(key)]
    return float(max(waits, default=0.0))


def _is_private(settings: ServiceSettings) -> bool:
    """Return whether the service has only loopback addresses and names."""
    return is_loopback(settings.host) and all(map(is_loopback, settings.hosts))
