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
from demur.guards.rate.limits import RateLimit, RateState, finite, reckon
from demur.model.finding import Action, Finding

__all__ = ["CODES", "MOST_COST", "SURFACE", "RateConfig", "RateUse", "check"]

SURFACE = Surface.RATE
CODES = (ReasonCode.BUDGET_EXCEEDED, ReasonCode.RATE_LIMIT)
MOST_COST = 2**31


class RateUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a limited resource: its key, cost, time, and the state before it."""

    key: str
    limit: RateLimit
    cost: int = 1
    now_s: float = 0.0
    state: RateState = RateState()

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise InputTypeError.expected("the key of a use", "a string", self.key)
        if isinstance(self.cost, bool) or not isinstance(self.cost, int):
            raise InputTypeError.expected("the cost of a use", "a whole number", self.cost)
        if not 0 <= self.cost <= MOST_COST:
            raise InputError(f"a use costs from 0 to {MOST_COST} units", where="cost")
        finite("now_s", self.now_s)


class RateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The action where a limit is exceeded."""

    action: Action = Action.BLOCK


def check(event: RateUse, config: RateConfig) -> Iterator[Finding]:
    """Yield a finding if the use is more than the limit admits."""
    if not isinstance(event, RateUse):
        raise InputTypeError.expected("the event", "a `RateUse`", event)
    limit = event.limit
    reckoning = reckon(limit, event.state, event.now_s, event.cost)
    if reckoning.admitted:
        return
    wait = reckoning.retry_after
    if wait is None:
        yield Finding(
            code=ReasonCode.BUDGET_EXCEEDED,
            surface=SURFACE,
            detail=f"{event.cost} {_word(limit)} at once are more than {limit.most}",
            evidence={"resource": _word(limit), "used": event.cost, "budget": limit.most},
            action=config.action,
        )
        return
    yield Finding(
        code=ReasonCode.RATE_LIMIT,
        surface=SURFACE,
        detail=f"more than {limit.count} {_word(limit)} in {limit.per_s:g} s",
        evidence={
            "retry_after": wait,
            "limit": limit.count,
            "window": limit.per_s,
            "unit": _word(limit),
        },
        action=config.action,
    )


def _word(limit: RateLimit) -> str:
    return limit.unit[:40] if limit.unit.isprintable() else "units"
