"""Rate limits in a pipeline: the guard, and the limiters that keep its counts.

A limiter admits or refuses a use, and returns the state before it and the time. The rate guard's
pure arithmetic on these gives the same answer that the limiter acted on. `LocalLimiter` counts in
this process. `RedisLimiter` shares counts between processes: one use is one round trip, in which a
script reads and writes all limits of a key by the server's clock.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import heappop, heappush, heapreplace
from importlib import import_module
from math import ceil
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol, Self

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, InputError, InputTypeError, MissingExtraError
from demur.guards import rate
from demur.guards.rate import TOLERANCE, RateConfig, RateLimit, RateState, RateUse, apply_limit
from demur.model.finding import Finding

SecondsClock = Callable[[], float]
_NEW = RateState()
# How many keys that may be empty are checked on each use.
_MAX_SWEPT = 2
_log = logging.getLogger("demur")


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
    the limiter refuses a new key, so nobody escapes a limit by inventing many keys. `clock` gives
    seconds from any origin.
    """

    blocking = False

    def __init__(self, *, max_keys: int = 100_000, clock: SecondsClock = time.monotonic) -> None:
        if max_keys < 1:
            raise InputError(f"keep at least one key, not {max_keys}", where="max_keys")
        self._max_keys = max_keys
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
            fills = [apply_limit(use.limit, use.state, now, cost) for use in uses]
            if not uses or not all(fill.admitted for fill in fills):
                return LimiterResult(uses, "process")
            self._drop_empty_keys(now, key)
            # INVARIANT: a key that still has counts is never dropped, however many keys there are.
            if key not in self._kept and len(self._kept) >= self._max_keys:
                return LimiterResult(uses, "process", full=max(0.0, self._empty[0][0] - now))
            states = {limit: each.state for limit, each in zip(limits, fills, strict=True)}
            states = {**self._kept.get(key, {}), **states}
            if key not in self._kept:
                heappush(self._empty, (_empty_at(states), key))
            self._kept[key] = states
        return LimiterResult(uses, "process")

    def close(self) -> None:
        """Forget all counts."""
        with self._lock:
            self._kept.clear()
            self._empty.clear()

    def _drop_empty_keys(self, now: float, key: str) -> None:
        """Drop a few empty keys; if there is no room left, as many as needed."""
        checked = 0
        while self._empty and self._empty[0][0] <= now:
            needed = key not in self._kept and len(self._kept) >= self._max_keys
            if checked >= _MAX_SWEPT and not needed:
                return
            checked += 1
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


OnFailure = Literal["closed", "local"]

# The same arithmetic in the same order as in `demur.guards.rate`, so that both give the same
# result to the last bit. Refused uses write nothing.
_SCRIPT = f"""
local now
if ARGV[1] == '' then
  local t = redis.call('TIME')
  now = tonumber(t[1]) + tonumber(t[2]) / 1000000
else
  now = tonumber(ARGV[1])
end
local cost = tonumber(ARGV[2])
local told, after, admitted = {{string.format('%.17g', now)}}, {{}}, true
for i, key in ipairs(KEYS) do
  local rate, most = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local level, at = string.match(redis.call('GET', key) or '', '^(%S+) (%S+)$')
  level, at = tonumber(level) or 0, tonumber(at) or 0
  told[i + 1] = string.format('%.17g %.17g', level, at)
  local left = math.max(0, level - math.max(0, now - at) * rate) + cost
  if left > most + {TOLERANCE!r} then admitted = false end
  after[i] = {{left, math.max(now, at), math.ceil(left / rate * 1000)}}
end
if admitted then
  for i, key in ipairs(KEYS) do
    local state = string.format('%.17g %.17g', after[i][1], after[i][2])
    redis.call('SET', key, state, 'PX', string.format('%d', after[i][3] + 60000))
  end
end
return told
"""


class RedisLimiter:
    """Counts in Redis. Safe to share between threads, and to carry over a fork.

    If Redis cannot be reached, `on_failure` decides: `closed` raises, so that the rate guard counts
    as unavailable; `local` counts in this process meanwhile. After a failure Redis is not
    called for `pause_s` seconds, so that an outage does not cost each request a timeout. Keys
    are stored as digests, so that no address or name of a person is in Redis. The default
    clock is the server's, which all processes share.
    """

    blocking = True

    def __init__(
        self,
        client: Any,
        *,
        prefix: str = "demur:rate",
        on_failure: OnFailure = "closed",
        pause_s: float = 1.0,
        clock: SecondsClock | None = None,
        local: LocalLimiter | None = None,
    ) -> None:
        if on_failure not in {"closed", "local"}:
            help_text = "`closed`: nothing is admitted; `local`: count in this process"
            problem = f"unknown `on_failure` value `{on_failure}`"
            raise InputError(problem, where="on_failure", help=help_text)
        self._errors = (_load_redis().RedisError, OSError, ValueError)
        self._client = client
        self._script = client.register_script(_SCRIPT)
        self._prefix = prefix
        self._on_failure = on_failure
        self._pause_s = pause_s
        self._clock = clock
        self._local = LocalLimiter() if local is None else local
        self._silent_until = float("-inf")
        self.is_degraded = False

    @classmethod
    def from_url(cls, url: str, *, timeout_s: float = 0.25, **settings: Any) -> Self:
        """Return a limiter on the Redis at `url`; connecting and each call may take `timeout_s`.

        Raises:
            InputError: It is no Redis URL.
        """
        redis = _load_redis()
        # Retry once, only for a connection that the server closed.
        errors, at_once = (redis.ConnectionError,), redis.backoff.NoBackoff()
        once_more = redis.retry.Retry(at_once, 1, supported_errors=errors)
        try:
            client = redis.Redis.from_url(
                url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=once_more
            )
        except ValueError as error:
            help_text = "like redis://host:6379/0, rediss://… or unix:///path"
            raise InputError("not a Redis URL", where="redis", help=help_text) from error
        return cls(client, **settings)

    def take_units(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> LimiterResult:
        """Return the use as each limit sees it; it is counted only if all limits admit it.

        Raises:
            LimiterUnavailableError: Redis cannot be reached, and `on_failure` is `closed`.
        """
        # Validate before sending: an invalid use must not be counted.
        uses = [RateUse(key=key, limit=limit, cost=cost) for limit in limits]
        try:
            result = self._run_script(uses)
        except self._errors as error:
            return self._count_locally(uses, error)
        if self.is_degraded:
            self.is_degraded = False
            _log.warning("Redis answers again: processes share rate limits")
        return result

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _run_script(self, uses: list[RateUse]) -> LimiterResult:
        if time.monotonic() < self._silent_until:
            raise ConnectionError("paused after a failure")
        now = "" if self._clock is None else repr(float(self._clock()))
        numbers = [n for use in uses for n in (repr(use.limit.rate), str(use.limit.max_burst))]
        cost = uses[0].cost if uses else 0
        keys = [self._redis_key(use) for use in uses]
        reply = self._script(keys=keys, args=[now, str(cost), *numbers])
        now_s = float(reply[0])
        counted: list[RateUse] = []
        for use, kept in zip(uses, reply[1:], strict=True):
            level, at_s = map(float, kept.split())
            state = RateState(level=level, at_s=at_s)
            counted.append(msgspec.structs.replace(use, now_s=now_s, state=state))
        return LimiterResult(tuple(counted), "redis")

    def _count_locally(self, uses: list[RateUse], error: Exception) -> LimiterResult:
        """Count the use in this process, or raise, as `on_failure` says."""
        if time.monotonic() >= self._silent_until:
            self._silent_until = time.monotonic() + self._pause_s
        if not self.is_degraded:
            self.is_degraded = True
            how = "are counted in this process" if self._on_failure == "local" else "refuse"
            _log.warning("Redis does not answer (%s): rate limits %s", type(error).__name__, how)
        if self._on_failure == "closed":
            raise LimiterUnavailableError(
                f"Redis cannot be reached: {type(error).__name__}",
                help="`on_failure='local'` counts in this process meanwhile",
            ) from error
        cost = uses[0].cost if uses else 0
        result = self._local.take_units(uses[0].key if uses else "", [u.limit for u in uses], cost)
        return result._replace(fallback=True)

    def _redis_key(self, use: RateUse) -> str:
        digest = sha256(use.key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        # The hash tag keeps all limits of a key on one node of a cluster.
        return f"{self._prefix}:{{{digest}}}:{use.limit.name}"


class RateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A use that is about to happen, counted under `key`."""

    key: str
    cost: int = 1


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
    def is_degraded(self) -> bool:
        """Whether shared counts are kept in this process for now."""
        return bool(getattr(self.limiter, "is_degraded", False))

    def check(
        self, event: RateRequest | str, config: RateConfig | None = None
    ) -> Iterator[Finding]:
        """Yield a finding for each limit that the use would exceed.

        Raises:
            LimiterUnavailableError: The counts cannot be reached.
        """
        request = RateRequest(key=event) if isinstance(event, str) else event
        if not isinstance(request, RateRequest):
            raise InputTypeError.wrong_type("the event", "a `RateRequest`", event)
        result = self.limiter.take_units(request.key, self._limits, request.cost)
        if result.full is not None:
            yield _full_finding(result, config or RateConfig())
            return
        for use in result.uses:
            for finding in rate.check(use, config or RateConfig()):
                evidence = {**finding.evidence, "counted": result.counted}
                yield msgspec.structs.replace(finding, evidence=evidence)


def _full_finding(result: LimiterResult, config: RateConfig) -> Finding:
    """Return the finding for a new key that the limiter has no room to count."""
    assert result.full is not None
    wait_s = max(1, ceil(result.full))
    return Finding(
        code=ReasonCode.RATE_LIMIT,
        surface=rate.SURFACE,
        detail="more keys are in use than the limiter counts",
        evidence={"limiter_full": True, "retry_after": wait_s, "counted": result.counted},
        action=config.action,
    )


def open_limiter(url: str | None = None, **settings: Any) -> Limiter:
    """Return a limiter in this process, or on the Redis at `url`.

    Raises:
        InputError: The URL is no Redis URL, or a setting is invalid.
        MissingExtraError: The Redis client is missing.
    """
    return LocalLimiter(**settings) if url is None else RedisLimiter.from_url(url, **settings)


def _load_redis() -> Any:
    try:
        import_module("redis.retry")
        import_module("redis.backoff")
        return import_module("redis")
    except ImportError as error:
        help_text = "pip install 'demur[redis]'"
        raise MissingExtraError("Redis needs the `redis` package", help=help_text) from error
