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
# What reads the store, pages, logs and shared counts have threads of their own each, so that
# deciding never queues behind them, nor one of them behind another; what would wait for too
# long is turned away at once.
_THREADS = 4
_MOST_WAITING = 256
_MOST_PAGES = 64
# Logs are large, and are held in memory while they are counted.
_MOST_LOGS = 4
_LOG_THREADS = 2


class Service:
    """A gate and what stands around it. The gate belongs to whoever made it.

    `sample` says that the store holds made-up decisions, for the dashboard to say so. Calls are
    counted in this process, or by a `limiter` that several share.
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
        # Nobody is answered any more: what still runs has to end.
        self.ended = False
        # When the store was last seen to answer, for `/ready`.
        self.checked_at = -inf
        # The surfaces whose guards have made what they need.
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
            ProblemError: This gate keeps none.
        """
        if self.gate.store is None:
            raise ProblemError(
                503, ReasonCode.STORAGE_UNAVAILABLE, "this service stores no decisions"
            )
        return self.gate.store

    async def work(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function gives that would keep the event loop waiting.

        Raises:
            ProblemError: Too much is waiting already.
        """
        return await self._reading.run(function, *args, **kwargs)

    async def show(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function gives that makes a page.

        Raises:
            ProblemError: Too many pages are waited for already.
        """
        return await self._pages.run(function, *args, **kwargs)

    async def scan(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function gives that counts a log; it ends by itself, as `bounded` says.

        Raises:
            ProblemError: Too many logs are being counted, also ones nobody waits for any more.
        """
        return await self._scanning.run(function, *args, **kwargs)

    @contextmanager
    def taking_log(self) -> Iterator[None]:
        """Hold a place for a log while it is read and counted.

        Raises:
            ProblemError: All places are taken.
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
        """Count a call. Whoever sits at this machine is not counted.

        Raises:
            ProblemError: The caller has used up its rate.
            LimiterUnavailableError: The counts cannot be reached.
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
        """Have something closed with the service."""
        with self._lock:
            self._closers.append(closer)

    def close(self) -> None:
        """Let go of what the service itself opened; the gate stays open."""
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
    """Return how long a caller has to wait whose calls are counted for all workers together."""
    waits = [found.evidence.get("retry_after") or 1.0 for found in counts.check(key)]
    return float(max(waits, default=0.0))


def _is_private(settings: ServiceSettings) -> bool:
    """Return whether nobody elsewhere is meant to call; a name for others says that somebody is."""
    return is_loopback(settings.host) and all(map(is_loopback, settings.hosts))
