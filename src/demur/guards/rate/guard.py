"""Say whether a use is within its rate. Codes: RATE_LIMIT, BUDGET_EXCEEDED.

Looks at one use of one key: its cost, the limit, and the state that a limiter kept. Waiting
lifts RATE_LIMIT, and `retry_after` in the evidence says how long, in seconds. A single use
that costs more than the limit ever admits at once is BUDGET_EXCEEDED: no wait helps it.

Limits: it counts, and does not know who hides behind several keys. Keeping the state, in
this process or in Redis, is the limiter's part (`demur.gate.limiter`).
"""

from collections.abc import Iterator

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.rate.limits import RateLimit, RateState, check_finite, apply_limit
from demur.model.finding import Action, Finding

__all__ = ["CODES", "MAX_COST", "SURFACE", "RateConfig", "RateUse", "check"]

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
    reckoning = apply_limit(limit, event.state, event.now_s, event.cost)
    if reckoning.admitted:
        return
    wait = reckoning.retry_after
    if wait is None:
        yield Finding(
            code=ReasonCode.BUDGET_EXCEEDED,
            surface=SURFACE,
            detail=f"{event.cost} {_unit_word(limit)} at once are more than {limit.max_burst}",
            evidence={"resource": _unit_word(limit), "used": event.cost, "budget": limit.max_burst},
            action=config.action,
        )
        return
    yield Finding(
        code=ReasonCode.RATE_LIMIT,
        surface=SURFACE,
        detail=f"more than {limit.count} {_unit_word(limit)} in {limit.per_s:g} s",
        evidence={
            "retry_after": wait,
            "limit": limit.count,
            "window": limit.per_s,
            "unit": _unit_word(limit),
        },
        action=config.action,
    )


def _unit_word(limit: RateLimit) -> str:
    return limit.unit[:40] if limit.unit.isprintable() else "units"
