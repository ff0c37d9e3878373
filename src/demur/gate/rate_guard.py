"""The rate guard of a pipeline: limits, and the limiter that keeps their counts."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from math import ceil
from typing import Any, Protocol, cast

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.limiter import Limiter, LocalLimiter, LimiterResult
from demur.guards.rate import guard as rate
from demur.guards.rate.guard import RateConfig
from demur.guards.rate.limits import RateLimit
from demur.model.finding import Finding

__all__ = ["RateRequest", "RateGuard", "open_limiter"]


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
