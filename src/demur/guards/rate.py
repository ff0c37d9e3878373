"""The rate guard: whether a use is within its rate. Codes: RATE_LIMIT, BUDGET_EXCEEDED.

It looks at one use of one key: its cost, the limit, and the state that a limiter kept. Waiting
lifts RATE_LIMIT, and `retry_after` in the evidence says how long, in seconds. A single use that
costs more than the limit ever admits at once is BUDGET_EXCEEDED: no wait helps.

The arithmetic is GCRA as a leaky bucket: each key has a level that drains at the limit's rate,
and a use is admitted if the level plus its cost stays within the burst. A refused use costs
nothing.

Limits: the guard does not know who uses several keys. A limiter keeps the state, in this
process or in Redis (`demur.gate`).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.model.finding import Action, Finding

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


def fill_level(level: float, at_s: float, now_s: float, rate: float, cost: float) -> float:
    """Return a level of the time `at_s` after it drained until `now_s` and took `cost` units."""
    return max(0.0, level - max(0.0, now_s - at_s) * rate) + cost


def apply_limit(limit: RateLimit, state: RateState, now_s: float, cost: int) -> RateResult:
    """Return whether a use of `cost` units at the time `now_s` is admitted."""
    # INVARIANT: in any stretch of time, at most the burst plus what the rate allows is admitted.
    after = fill_level(state.level, state.at_s, now_s, limit.rate, cost)
    if after <= limit.max_burst + TOLERANCE:
        return RateResult(True, RateState(level=after, at_s=max(now_s, state.at_s)))
    if cost > limit.max_burst:
        return RateResult(False, state, retry_after=None)
    # A clock that went back does not shorten the wait.
    behind = max(0.0, state.at_s - now_s)
    wait = behind + (after - limit.max_burst) / limit.rate
    # Rounded up to milliseconds, so that the wait is long enough.
    return RateResult(False, state, retry_after=math.floor(wait * 1000 + 1) / 1000)


def check_finite(name: str, value: object) -> None:
    """Raise an error if `value` is no finite number in range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(f"`{name}`", "a number", value)
    if not abs(value) <= _MAX_NUMBER:
        raise InputError(f"`{name}` is out of range", where=name)


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


SURFACE = Surface.RATE
CODES = (ReasonCode.BUDGET_EXCEEDED, ReasonCode.RATE_LIMIT)
MAX_COST = 2**31


class RateUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a limited resource: its key, cost, time, and the state before it."""

    key: str
    limit: RateLimit
    cost: int = 1
    now_s: float = 0.0
    state: RateState = RateState()

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise InputTypeError.wrong_type("the key of a use", "a string", self.key)
        if isinstance(self.cost, bool) or not isinstance(self.cost, int):
            raise InputTypeError.wrong_type("the cost of a use", "a whole number", self.cost)
        if not 0 <= self.cost <= MAX_COST:
            raise InputError(f"a use costs from 0 to {MAX_COST} units", where="cost")
        check_finite("now_s", self.now_s)


class RateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The action where a limit is exceeded."""

    action: Action = Action.BLOCK


def check(event: RateUse, config: RateConfig) -> Iterator[Finding]:
    """Yield a finding if the use is more than the limit admits."""
    if not isinstance(event, RateUse):
        raise InputTypeError.wrong_type("the event", "a `RateUse`", event)
    limit = event.limit
    result = apply_limit(limit, event.state, event.now_s, event.cost)
    if result.admitted:
        return
    unit = limit.unit[:40] if limit.unit.isprintable() else "units"
    wait = result.retry_after
    if wait is None:
        code = ReasonCode.BUDGET_EXCEEDED
        detail = f"{event.cost} {unit} at once are more than {limit.max_burst}"
        evidence = {"resource": unit, "used": event.cost, "budget": limit.max_burst}
    else:
        code, detail = ReasonCode.RATE_LIMIT, f"more than {limit.count} {unit} in {limit.per_s:g} s"
        window = {"limit": limit.count, "window": limit.per_s}
        evidence = {"retry_after": wait, **window, "unit": unit}
    yield Finding(
        code=code, surface=SURFACE, detail=detail, evidence=evidence, action=config.action
    )
