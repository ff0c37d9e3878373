"""Hold alert rules against counts. Pure: the same counts and moment give the same answer."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect
from demur.observe.alerts.counts import Counts, Source
from demur.observe.alerts.periods import spoken
from demur.observe.alerts.rule import AlertRule, Kind, Selector, Whole

__all__ = ["Alert", "State", "evaluate"]

# Number of earlier moments at which a rule with `for` must have fired too.
_MOMENTS = 5
_MOST_NAMED = 5


class State(StrEnum):
    """The state of an evaluated rule."""

    FIRING = "firing"
    QUIET = "quiet"
    UNJUDGED = "unjudged"


class Alert(NamedTuple):
    """An evaluated rule: its state, the measured number, and a message.

    `codes` are the unknown codes that a rule fires on, most frequent first.
    """

    rule: AlertRule
    state: State
    value: float | None
    message: str
    since: datetime
    until: datetime
    codes: tuple[str, ...] = ()


class _Judged(NamedTuple):
    state: State
    value: float | None
    message: str
    codes: tuple[str, ...] = ()


def evaluate(
    rules: Iterable[AlertRule], source: Source, now: datetime, registry: Registry
) -> list[Alert]:
    """Return the alert of each rule at a moment. Unknown counts never make a rule quiet."""
    return [_alert(rule, source, now, registry) for rule in rules]


def _alert(rule: AlertRule, source: Source, now: datetime, registry: Registry) -> Alert:
    first = _judge(rule, source, now, registry)
    for moment in _earlier(rule.hold, now) if first.state is State.FIRING else ():
        then = _judge(rule, source, moment, registry)
        if then.state is not State.FIRING:
            why = f"not for {spoken(rule.hold)} yet: {first.message}"
            first = _Judged(then.state, first.value, why)
            break
    state, value, message, codes = first
    return Alert(rule, state, value, message, now - rule.window, now, codes)


def _earlier(hold: timedelta, now: datetime) -> list[datetime]:
    """Return moments spread over the time for which a rule must have fired."""
    return [now - hold * step / _MOMENTS for step in range(1, _MOMENTS + 1)] if hold else []


def _judge(rule: AlertRule, source: Source, now: datetime, registry: Registry) -> _Judged:
    began = now - rule.window
    counts = source.between(began, now)
    if rule.kind is Kind.COUNT:
        return _count(rule, counts)
    if rule.kind is Kind.SHARE:
        return _share(rule, counts, registry)
    before = source.between(began - rule.before, began)
    if rule.kind is Kind.RATE_CHANGE:
        return _change(rule, counts, before)
    return _unknown(rule, counts, before, registry)


def _count(rule: AlertRule, counts: Counts) -> _Judged:
    number = counts.number(_selector(rule))
    # INVARIANT: counts that are not complete can make a rule fire, and never make it quiet.
    if number is None or (counts.problem and number <= rule.threshold):
        return _cannot(counts, number)
    state = State.FIRING if number > rule.threshold else State.QUIET
    limit = f"over {rule.limit}" if state is State.FIRING else f"not over {rule.limit}"
    said = f"{_what(rule)}: {number} in the last {spoken(rule.window)}, {limit}"
    return _Judged(state, number, said)


def _share(rule: AlertRule, counts: Counts, registry: Registry) -> _Judged:
    number = counts.number(_selector(rule))
    whole = counts.decisions
    if rule.whole is Whole.REFUSALS:
        whole = _refusals(counts, registry)
    if number is None or whole is None or counts.problem:
        return _cannot(counts, number)
    if whole < rule.minimum or not whole:
        few = f"{whole} {rule.whole} in the last {spoken(rule.window)}: too few to tell"
        return _Judged(State.QUIET, None, f"{_what(rule)}: {few}")
    percent = 100 * number / whole
    state = State.FIRING if percent > rule.threshold else State.QUIET
    limit = "over" if state is State.FIRING else "not over"
    said = f"{percent:.3g} % of {whole} {rule.whole} in the last {spoken(rule.window)}"
    return _Judged(state, percent, f"{_what(rule)}: {said}, {limit} {rule.limit} %")


def _change(rule: AlertRule, counts: Counts, before: Counts) -> _Judged:
    number, earlier = counts.number(_selector(rule)), before.number(_selector(rule))
    problem = counts.problem or before.problem
    if number is None or earlier is None or not _known(counts, before) or problem:
        return _cannot(counts if counts.problem else before, number)
    assert counts.decisions is not None
    assert before.decisions is not None
    if number < rule.minimum or before.decisions < rule.minimum:
        few = f"{number} in the last {spoken(rule.window)}, {before.decisions} decisions before it"
        return _Judged(State.QUIET, None, f"{_what(rule)}: {few}: too few to compare")
    now_rate, then_rate = number / counts.decisions, earlier / before.decisions
    # Compare counts, not rates, so that rounding does not matter.
    grown = number * before.decisions >= rule.threshold * earlier * counts.decisions
    state = State.FIRING if grown else State.QUIET
    said = f"{now_rate:.1%} of decisions in the last {spoken(rule.window)}"
    against = f"{then_rate:.1%} in the {spoken(rule.before)} before"
    factor = now_rate / then_rate if then_rate else None
    return _Judged(state, factor, f"{_what(rule)}: {said}, {against}")


def _unknown(rule: AlertRule, counts: Counts, before: Counts, registry: Registry) -> _Judged:
    new = {
        code: number
        for code, number in counts.codes.items()
        if code not in registry and code not in before.codes
    }
    problem = counts.problem or before.problem
    # Incomplete earlier counts can make an old code look new, so new codes still fire.
    if problem and not new:
        return _cannot(counts if counts.problem else before, None)
    if not new:
        said = f"no new unknown code in the last {spoken(rule.window)}"
        return _Judged(State.QUIET, 0, said)
    ranked = sorted(new, key=lambda code: (-new[code], code))
    named = ", ".join(f"{code} ({new[code]})" for code in ranked[:_MOST_NAMED])
    more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
    said = f"no registry knows {named}{more}, seen in the last {spoken(rule.window)}"
    return _Judged(State.FIRING, len(new), said, tuple(ranked))


def _cannot(counts: Counts, number: int | None) -> _Judged:
    why = counts.problem or "the source does not tell it"
    return _Judged(State.UNJUDGED, number, f"could not judge: {why}")


def _refusals(counts: Counts, registry: Registry) -> int:
    """Return the number of refusing reasons; unknown codes count as refusals."""
    allowing = {entry.code for entry in registry if entry.effect is not Effect.REFUSE}
    return sum(number for code, number in counts.codes.items() if code not in allowing)


def _known(counts: Counts, before: Counts) -> bool:
    return counts.decisions is not None and before.decisions is not None


def _selector(rule: AlertRule) -> Selector:
    assert rule.selector is not None, "a rule of this kind says what it counts"
    return rule.selector


def _what(rule: AlertRule) -> str:
    return _selector(rule).value
