"""Rate limits in a pipeline: the guard, and the limiter that keeps its counts in this process.

A limiter admits or refuses a use, and returns the state before it and the time. The rate guard's
pure arithmetic on these gives the same answer that the limiter acted on.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from importlib import import_module
from math import ceil
from threading import Lock
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, InputError, InputTypeError, MissingExtraError
from demur.guards import rate
from demur.guards.rate import RateConfig, RateLimit, RateState, RateUse, apply_limit
from demur.model.finding import Finding

SecondsClock = Callable[[], float]
_NEW = RateState()
# How many keys that may be empty are checked on each use.
_MAX_SWEPT = 2


class LimiterUnavailableError(DemurError):
    """The counts cannot be reached, so nothing may be admitted."""


class LimiterResult(NamedTuple):
    """A use as each limit saw it, and where it was counted: `process` or `redis`.

    `fallback` says that it was counted in this process because Redis could not be reached.
    `full` is set if there was no room to count it: it must not be admitted, and in about so many
    seconds there is room.
    """

    uses: tuple[RateUse, ...]
    counted: str
    fallback: bool = False
    full: float | None = None


class Limiter(Protocol):
    """Keeps counts. `blocking` says that `take_units` may wait for a network."""

    blocking: bool

    def take_units(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> LimiterResult:
        """Return the use as each limit sees it; it is counted only if all limits admit it.

        Raises:
            LimiterUnavailableError: The counts cannot be reached.
        """

    def close(self) -> None:
        """Release all resources."""


class LocalLimiter:
    """Counts in this process. Safe to share between threads.

    It keeps at most `max_keys` keys and drops those whose counts ran out. While there is no room,
    a new key is refused, so nobody escapes a limit by inventing many keys. `clock` gives seconds
    from any origin.
    """

    blocking = False

    def __init__(self, *, max_keys: int = 100_000, clock: SecondsClock = time.monotonic) -> None:
        if max_keys < 1:
            raise InputError(f"at least one key is kept, not {max_keys}", where="most_keys")
        self._most = max_keys
        self._clock = clock
        self._kept: dict[str, dict[RateLimit, RateState]] = {}
        # A heap of the earliest time at which each key is empty; a key used since is put back.
        self._empty: list[tuple[float, str]] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def take_units(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> LimiterResult:
        """Return the use as each limit sees it; it is counted only if all limits admit it."""
        with self._lock:
            now = self._clock()
            kept = self._kept.get(key, {})
            uses = tuple(
                RateUse(key=key, limit=limit, cost=cost, now_s=now, state=kept.get(limit, _NEW))
                for limit in limits
            )
            reckonings = [apply_limit(use.limit, use.state, now, cost) for use in uses]
            if not uses or not all(reckoning.admitted for reckoning in reckonings):
                return LimiterResult(uses, "process")
            self._drop_empty_keys(now, key)
            # INVARIANT: a key that still has counts is never dropped, however many keys there are.
            if key not in self._kept and len(self._kept) >= self._most:
                return LimiterResult(uses, "process", full=max(0.0, self._empty[0][0] - now))
            states = {limit: each.state for limit, each in zip(limits, reckonings, strict=True)}
            self._keep_state(key, {**self._kept.get(key, {}), **states})
        return LimiterResult(uses, "process")

    def close(self) -> None:
        """Forget all counts."""
        with self._lock:
            self._kept.clear()
            self._empty.clear()

    def _keep_state(self, key: str, states: dict[RateLimit, RateState]) -> None:
        if key not in self._kept:
            heappush(self._empty, (_empty_at(states), key))
        self._kept[key] = states

    def _drop_empty_keys(self, now: float, key: str) -> None:
        """Drop a few empty keys; if there is no room left, as many as needed."""
        looked = 0
        while self._empty and self._empty[0][0] <= now:
            needed = key not in self._kept and len(self._kept) >= self._most
            if looked >= _MAX_SWEPT and not needed:
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
    """Return the time at which all counts have run out."""
    return max(state.at_s + state.level / limit.rate for limit, state in states.items())


class RateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A use that is about to happen, counted under `key`."""

    key: str
    cost: int = 1


class _RedisLimiterModule(Protocol):
    class RedisLimiter(Limiter, Protocol):
        @classmethod
        def from_url(cls, url: str, **settings: Any) -> Limiter: ...


class RateGuard:
    """Counts each use, and reports uses above a limit with the codes of the rate guard.

    Unlike other guards it is not pure: each admitted check consumes units, a refused check
    consumes none. Its event is a `RateRequest`, or the key alone.
    """

    SURFACE: Surface = rate.SURFACE
    CODES: tuple[str, ...] = rate.CODES

    def __init__(self, *limits: RateLimit, limiter: Limiter | None = None) -> None:
        if not limits:
            raise InputError("a rate guard needs a limit", help="RateLimit(count=60, per_s=60)")
        self._limits: Sequence[RateLimit] = limits
        self.limiter: Limiter = LocalLimiter() if limiter is None else limiter

    @property
    def blocking(self) -> bool:
        """Whether a check may wait for a network."""
        return self.limiter.blocking

    @property
    def degraded(self) -> bool:
        """Whether shared counts are kept in this process for now."""
        return bool(getattr(self.limiter, "degraded", False))

    def check(
        self, event: RateRequest | str, config: RateConfig | None = None
    ) -> Iterator[Finding]:
        """Yield a finding for each limit that the use would exceed.

        Raises:
            LimiterUnavailableError: The counts cannot be reached.
        """
        asked = RateRequest(key=event) if isinstance(event, str) else event
        if not isinstance(asked, RateRequest):
            raise InputTypeError.wrong_type("the event", "a `RateAsk`", event)
        taken = self.limiter.take_units(asked.key, self._limits, asked.cost)
        if taken.full is not None:
            yield _full_finding(taken, config or RateConfig())
            return
        for use in taken.uses:
            for found in rate.check(use, config or RateConfig()):
                evidence = {**found.evidence, "counted": taken.counted}
                yield msgspec.structs.replace(found, evidence=evidence)


def _full_finding(result: LimiterResult, config: RateConfig) -> Finding:
    """Return the finding for a new key that the limiter has no room to count."""
    assert result.full is not None
    return Finding(
        code=ReasonCode.RATE_LIMIT,
        surface=rate.SURFACE,
        detail="more keys are in use than the limiter counts",
        evidence={
            "limiter_full": True,
            "retry_after": max(1, ceil(result.full)),
            "counted": result.counted,
        },
        action=config.action,
    )


def open_limiter(url: str | None = None, **settings: Any) -> Limiter:
    """Return a limiter in this process, or on the Redis at `url`.

    Raises:
        InputError: The URL is no Redis URL, or a setting cannot be used.
        MissingExtraError: The Redis client is not installed.
    """
    if url is None:
        return LocalLimiter(**settings)
    try:
        module = import_module("demur.gate.redis_limiter")
    except ImportError as error:
        raise MissingExtraError(
            "Redis needs the `redis` package", help="pip install 'demur[redis]'"
        ) from error
    return cast("_RedisLimiterModule", module).RedisLimiter.from_url(url, **settings)
