"""A limiter whose counts are shared by many processes in Redis.

One use is one round trip: a script reads and writes all limits of a key at once, by the server's
clock. If Redis cannot be reached, the limiter raises, so that nothing is admitted, or counts in
this process meanwhile, as the operator chose.
"""

import logging
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from demur.errors import InputError
from demur.gate.rate import LimiterResult, LimiterUnavailableError, LocalLimiter, SecondsClock
from demur.guards.rate import TOLERANCE, RateLimit, RateState, RateUse

__all__ = ["OnFailure", "RedisLimiter"]

OnFailure = Literal["closed", "local"]

_log = logging.getLogger("demur")

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
        client: "redis.Redis",
        *,
        prefix: str = "demur:rate",
        on_failure: OnFailure = "closed",
        pause_s: float = 1.0,
        clock: SecondsClock | None = None,
        local: LocalLimiter | None = None,
    ) -> None:
        if on_failure not in {"closed", "local"}:
            help_text = "`closed`: nothing is admitted; `local`: count in this process"
            raise InputError(
                f"unknown `on_failure` value `{on_failure}`", where="on_failure", help=help_text
            )
        self._client = client
        self._script = client.register_script(_SCRIPT)
        self._prefix = prefix
        self._on_failure = on_failure
        self._pause_s = pause_s
        self._clock = clock
        self._local = LocalLimiter() if local is None else local
        self._silent_until = float("-inf")
        self.degraded = False

    @classmethod
    def from_url(cls, url: str, *, timeout_s: float = 0.25, **settings: Any) -> Self:
        """Return a limiter on the Redis at `url`; connecting and each call may take `timeout_s`.

        Raises:
            InputError: It is no Redis URL.
        """
        # Retry once, only for a connection that the server closed.
        once_more = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
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
            taken = self._run_script(uses)
        except (redis.RedisError, OSError, ValueError) as error:
            return self._count_locally(uses, error)
        if self.degraded:
            self.degraded = False
            _log.warning("Redis is reachable again: rate limits are shared")
        return taken

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _run_script(self, uses: list[RateUse]) -> LimiterResult:
        if time.monotonic() < self._silent_until:
            raise redis.ConnectionError("paused after a failure")
        now = "" if self._clock is None else repr(float(self._clock()))
        numbers = [n for use in uses for n in (repr(use.limit.rate), str(use.limit.max_burst))]
        cost = uses[0].cost if uses else 0
        told = self._script(
            keys=[self._redis_key(use) for use in uses], args=[now, str(cost), *numbers]
        )
        now_s = float(told[0])
        return LimiterResult(
            tuple(
                RateUse(
                    key=u.key, limit=u.limit, cost=u.cost, now_s=now_s, state=_parse_state(kept)
                )
                for u, kept in zip(uses, told[1:], strict=True)
            ),
            "redis",
        )

    def _count_locally(self, uses: list[RateUse], error: Exception) -> LimiterResult:
        """Count the use in this process, or raise, as `on_failure` says."""
        if time.monotonic() >= self._silent_until:
            self._silent_until = time.monotonic() + self._pause_s
        if not self.degraded:
            self.degraded = True
            how = "are counted in this process" if self._on_failure == "local" else "refuse"
            _log.warning("Redis cannot be reached (%s): rate limits %s", type(error).__name__, how)
        if self._on_failure == "closed":
            raise LimiterUnavailableError(
                f"Redis cannot be reached: {type(error).__name__}",
                help="`on_failure='local'` counts in this process meanwhile",
            ) from error
        cost = uses[0].cost if uses else 0
        taken = self._local.take_units(uses[0].key if uses else "", [u.limit for u in uses], cost)
        return taken._replace(fallback=True)

    def _redis_key(self, use: RateUse) -> str:
        digest = sha256(use.key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        # The hash tag keeps all limits of a key on one node of a cluster.
        return f"{self._prefix}:{{{digest}}}:{use.limit.name}"


def _parse_state(kept: bytes | str) -> RateState:
    level, at_s = map(float, kept.split())
    return RateState(level=level, at_s=at_s)
