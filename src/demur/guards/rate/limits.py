"""The arithmetic of rate limits: GCRA, in its form as a leaky bucket.

Each key has a level that runs out at the limit's rate; a use is admitted if the level with
its cost stays within the burst. That is the generic cell rate algorithm: two numbers a key,
no windows with edges, and a use that is refused costs nothing.
"""

import math
from typing import NamedTuple

import msgspec

from demur.errors import InputError, InputTypeError

__all__ = ["TOLERANCE", "RateLimit", "RateState", "RateResult", "check_finite", "apply_limit"]

# Levels are fractions; smaller differences are rounding errors.
TOLERANCE = 1e-9
_MAX_COUNT = 2**31
# Larger times and levels are invalid.
_MAX_NUMBER = 2.0**53


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most `count` units in `per_s` seconds on average, and `burst` of them at once.

    In any stretch of t seconds, at most `burst + t * count / per_s` are admitted. `burst` is
    `count` unless said otherwise; 1 spaces uses evenly. `unit` is what is counted.
    """

    count: int
    per_s: float
    burst: int | None = None
    unit: str = "requests"

    def __post_init__(self) -> None:
        _check_whole("count", self.count)
        if self.burst is not None:
            _check_whole("burst", self.burst)
        _check_seconds("per_s", self.per_s)
        if not isinstance(self.unit, str):
            raise InputTypeError.wrong_type("`unit`", "a word", self.unit)

    @property
    def rate(self) -> float:
        """How many units drain in a second."""
        return self.count / self.per_s

    @property
    def max_burst(self) -> int:
        """How many units are admitted at once."""
        return self.count if self.burst is None else self.burst

    @property
    def name(self) -> str:
        """A short name of the limit; limits of one name share their counts."""
        return f"{self.unit}:{self.count}/{self.per_s:g}/{self.max_burst}"


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """The level of a key, and when it was measured."""

    level: float = 0.0
    at_s: float = 0.0

    def __post_init__(self) -> None:
        check_finite("level", self.level)
        check_finite("at_s", self.at_s)
        if self.level < 0:
            raise InputError("a level is not below 0", where="level")


class RateResult(NamedTuple):
    """Whether a use is admitted, the state after it, and how long to wait if it is not.

    `retry_after` is None if no wait makes the use possible.
    """

    admitted: bool
    state: RateState
    retry_after: float | None = 0.0


def apply_limit(limit: RateLimit, state: RateState, now_s: float, cost: int) -> RateResult:
    """Return whether a use of `cost` units at the time `now_s` is admitted."""
    elapsed = max(0.0, now_s - state.at_s)
    level = max(0.0, state.level - elapsed * limit.rate)
    # INVARIANT: in any stretch of time, at most the burst plus what the rate allows is admitted.
    after = level + cost
    if after <= limit.max_burst + TOLERANCE:
        return RateResult(admitted=True, state=RateState(level=after, at_s=max(now_s, state.at_s)))
    if cost > limit.max_burst:
        return RateResult(admitted=False, state=state, retry_after=None)
    # A clock that went back does not shorten the wait.
    behind = max(0.0, state.at_s - now_s)
    wait = behind + (after - limit.max_burst) / limit.rate
    return RateResult(admitted=False, state=state, retry_after=_rounded_up(wait))


def _rounded_up(seconds: float) -> float:
    """Return a wait in milliseconds that is surely long enough."""
    return math.floor(seconds * 1000 + 1) / 1000


def check_finite(name: str, value: object) -> None:
    """Raise an error if `value` is no finite number in range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(f"`{name}`", "a number", value)
    if not abs(value) <= _MAX_NUMBER:
        raise InputError(f"`{name}` is out of reach", where=name)


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError.wrong_type(f"`{name}`", "a whole number", value)
    if not 1 <= value <= _MAX_COUNT:
        raise InputError(f"`{name}` is from 1 to {_MAX_COUNT}, not {value}", where=name)


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(f"`{name}`", "a number of seconds", value)
    if not 1e-6 <= value <= _MAX_COUNT:
        raise InputError(f"`{name}` is from a microsecond to {_MAX_COUNT} seconds", where=name)
