"""The parts that a running service is made of, built once and shared by all calls."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from math import ceil, inf
from threading import Lock
from typing import TYPE_CHECKING

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.history import CallHistories, EncodedHistories, TenantHistories
from demur.enforce.opening import build_enforcer
from demur.gate.approval_queue import ApprovalQueue
from demur.gate.clock import Clock, format_timestamp, system_clock
from demur.gate.gate import Gate
from demur.gate.guard_settings import GuardSettings
from demur.gate.monitor import GuardrailMonitor, Monitor
from demur.gate.people import PeopleSettings
from demur.gate.rate import Limiter, RateGuard
from demur.grants.person_keys import ServiceKey
from demur.guards.rate import RateLimit
from demur.listener import is_loopback
from demur.service.approval_waits import ApprovalWaits
from demur.service.authentication import LOCAL, Authenticator, Principal
from demur.service.heavy_work import WorkContext, WorkSetup, check_keys
from demur.service.limits import (
    LoginLimiter,
    RateBuckets,
    SharedRateBuckets,
    WorkBudgets,
    WorkerPool,
)
from demur.service.oidc import OidcClient
from demur.service.people import Passwords
from demur.service.problem import ProblemError, unavailable
from demur.service.settings import ServiceSettings, parse_networks
from demur.service.work_pool import HeavyWorkPool
from demur.store.rows import ApprovalRow
from demur.store.store import Store

if TYPE_CHECKING:
    from demur.observe.metrics import Metrics


# Store reads, pages, heavy work and shared counts have a pool each, so that no kind of work
# queues behind another. A full pool rejects work at once.
_THREADS = 4
_MAX_WAITING = 256
_MAX_PAGES = 64
# Logs are large, and stay in memory while they are scanned.
_MAX_LOGS = 4
_MAX_STREAMS = 1000
_MAX_LOGINS = 32
# Where a caller who asks for it gets a changed text instead of a refusal.
_CHANGED_SURFACES = (
    Surface.INPUT,
    Surface.OUTPUT,
    Surface.TOOL_CALL,
    Surface.TOOL_RESULT,
    Surface.RETRIEVAL,
)


class Service:
    """A gate, and everything that the routes need beside it. The caller owns the gate.

    `guards` are the operator's settings of guards, and `histories` keep the tool calls of runs.
    `people` are the settings of people who log in. `sample` says that the store holds sample
    decisions, which the dashboard shows. Calls are counted in this process, in `buckets` that the
    workers of this machine share, or by a `limiter` that several machines share. `work` sets up
    the processes for heavy work; without it, that is done on threads.
    """

    def __init__(
        self,
        gate: Gate,
        settings: ServiceSettings | None = None,
        *,
        guards: GuardSettings | None = None,
        histories: CallHistories | None = None,
        metrics: "Metrics | None" = None,
        limiter: Limiter | None = None,
        buckets: SharedRateBuckets | None = None,
        work: WorkSetup | None = None,
        people: PeopleSettings | None = None,
        clock: Clock = system_clock,
        sample: bool = False,
    ) -> None:
        self.gate = gate
        self.settings = ServiceSettings() if settings is None else settings
        self.metrics = metrics
        self.guards = GuardSettings() if guards is None else guards
        kept = TenantHistories(lambda _: EncodedHistories()) if histories is None else histories
        self.monitor = GuardrailMonitor(clock=clock)
        if metrics is not None:
            metrics.add_monitor(self.monitor)
        watching: Monitor = self.monitor if metrics is None else metrics
        self.enforcer = build_enforcer(
            gate, self.guards, monitor=watching, histories=kept, carried=_CHANGED_SURFACES
        )
        self.clock = clock
        self.sample = sample
        self.closing = False
        self.started_at = format_timestamp(clock())
        # When the store last answered, for `/ready`.
        self.checked_at = -inf
        # The surfaces whose guards have compiled their rules.
        self.warm_surfaces: set[str] = set()
        self.authenticator = Authenticator(
            gate.store,
            allow_local=all(map(is_loopback, (self.settings.host, *self.settings.hosts))),
            memory_s=self.settings.key_memory_s,
            clock=clock,
        )
        rate, burst = self.settings.rate, self.settings.burst
        self._buckets = RateBuckets(rate, burst) if buckets is None else buckets
        limit = RateLimit(count=rate, per_s=1.0, burst=burst)
        self._shared_limit = None if limiter is None else RateGuard(limit, limiter=limiter)
        self.proxies = parse_networks(self.settings.proxies)
        self._lock = Lock()
        self._closers: list[Callable[[], None]] = []
        self.login_limiter = LoginLimiter()
        self.approval_waits = ApprovalWaits(self._find_approvals, lambda: self.closing)
        self.people = PeopleSettings() if people is None else people
        self.passwords = Passwords()
        oidc = self.people.oidc
        self.oidc = None if oidc is None else OidcClient(oidc, clock=clock)
        self._service_key: ServiceKey | None = None
        self.budgets = WorkBudgets(
            self.settings.budget_window_s,
            max_bytes=self.settings.budget_bytes,
            max_cpu_s=self.settings.budget_cpu_s,
        )
        # Each runs blocking functions on threads: for the store, for pages, for shared counts.
        self.store_pool = WorkerPool(
            "service", threads=_THREADS, max_jobs=_MAX_WAITING, on_cpu=self._charge_cpu
        )
        self.page_pool = WorkerPool(
            "pages", threads=_THREADS, max_jobs=_MAX_PAGES, on_cpu=self._charge_cpu
        )
        self.run_blocking = self.store_pool.run
        self._count_pool = WorkerPool("counts", threads=_THREADS, max_jobs=_MAX_WAITING)
        # Hashing passwords takes memory and time by design, so one is hashed at a time.
        self.password_pool = WorkerPool("passwords", threads=1, max_jobs=_MAX_LOGINS)
        self._pools = (self.page_pool, self.store_pool, self._count_pool, self.password_pool)
        pipeline = self.enforcer.pipeline
        context = WorkContext(self.guards, gate.registry, pipeline, lambda: gate.store)
        self.heavy_pool = HeavyWorkPool(
            context, self.budgets, setup=work, processes=self.settings.work_processes
        )
        # It runs the built-in guards in the processes of the pool.
        self.heavy_enforcer = copy(self.enforcer)
        self.heavy_enforcer.pipeline = self.enforcer.pipeline.with_runner(self.heavy_pool.run_guard)
        self._open_logs = 0
        self._open_streams = 0

    @cached_property
    def approvals(self) -> ApprovalQueue:
        """The queue of what waits for people.

        Raises:
            ProblemError: The gate has no store.
        """
        self.require_store()
        return ApprovalQueue(self.gate, self.require_service_key, clock=self.clock)

    async def _find_approvals(self, decision_ids: Collection[str]) -> list[ApprovalRow]:
        return await self.run_blocking(self.store.find_approvals, decision_ids)

    @property
    def store(self) -> Store:
        """The store of the decisions.

        Raises:
            ProblemError: The gate has no store.
        """
        return self.require_store()

    def require_store(self) -> Store:
        """Return the store of the decisions.

        Raises:
            ProblemError: The gate has no store.
        """
        if self.gate.store is None:
            problem = "this service stores no decisions"
            raise ProblemError(503, ReasonCode.STORAGE_UNAVAILABLE, problem)
        return self.gate.store

    def require_service_key(self) -> ServiceKey:
        """Return the key that keeps the keys of people; its file is read at the first use.

        Raises:
            GrantError: The file is missing, others can read it, or it holds no service key.
        """
        with self._lock:
            if self._service_key is None:
                self._service_key = ServiceKey.from_file(self.people.key)
            return self._service_key

    @contextmanager
    def reserve_log_slot(self) -> Iterator[None]:
        """Reserve a slot for a log while it is read and scanned.

        Raises:
            ProblemError: All slots are taken.
        """
        with self._lock:
            if self._open_logs >= _MAX_LOGS:
                raise unavailable("service overloaded", ReasonCode.RATE_LIMIT)
            self._open_logs += 1
        try:
            yield
        finally:
            with self._lock:
                self._open_logs -= 1

    @contextmanager
    def reserve_stream_slot(self) -> Iterator[None]:
        """Reserve a slot for a stream of events while it is open.

        Raises:
            ProblemError: All slots are taken.
        """
        with self._lock:
            if self._open_streams >= _MAX_STREAMS:
                raise unavailable("service overloaded", ReasonCode.RATE_LIMIT)
            self._open_streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._open_streams -= 1

    async def count_call(self, caller: Principal) -> None:
        """Count a call; local calls without a key are not counted.

        Raises:
            ProblemError: The caller exceeds its rate, or a budget is used up.
            LimiterUnavailableError: The shared limiter cannot be reached.
        """
        if caller is LOCAL:
            return
        self.budgets.require_left(caller.name)
        if self._shared_limit is None:
            wait = self._buckets.wait_for(caller.name)
        else:
            key = f"service:{caller.name}"
            findings = await self._count_pool.run(self._shared_limit.check, key)
            waits = [finding.evidence.get("retry_after") or 1.0 for finding in findings]
            wait = float(max(waits, default=0.0))
        if wait:
            seconds = max(1, ceil(wait))
            raise ProblemError(
                429,
                ReasonCode.RATE_LIMIT,
                f"this key calls more than {self.settings.rate} times a second",
                headers={"retry-after": str(seconds)},
                evidence={"retry_after": seconds},
            )

    def check_large_body(self, raw: bytes) -> None:
        """Refuse a body in which an object has a key twice; in a process, on a thread of the pool.

        Raises:
            ProblemError: A key occurs twice.
        """
        self.heavy_pool.call(check_keys, raw)

    def _charge_cpu(self, key: str, cpu_s: float) -> None:
        self.budgets.charge(key, cpu_s=cpu_s)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call a function when the service closes."""
        with self._lock:
            self._closers.append(closer)

    def close(self) -> None:
        """Close what the service opened; the gate stays open."""
        self.closing = True
        self.heavy_pool.close()
        for pool in self._pools:
            pool.close()
        self.authenticator.close()
        with self._lock:
            closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        if self._shared_limit is not None:
            self._shared_limit.limiter.close()
