"""Hold alert rules against counts. Pure: the same counts and moment give the same answer."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect
from demur.observe.alerts.counts import DecisionCounts, CountSource
from demur.observe.alerts.periods import describe_period
from demur.observe.alerts.rule import AlertRule, AlertKind, DecisionSelector, ShareWhole

__all__ = ["Alert", "AlertState", "evaluate_rules"]

# Number of earlier moments at which a rule with `for` must have fired too.
_HOLD_CHECKS = 5
_MAX_NAMED_CODES = 5


class AlertState(StrEnum):
    """The state of an evaluated rule."""

    FIRING = "firing"
    QUIET = "quiet"
    UNJUDGED = "unjudged"


class Alert(NamedTuple):
    """An evaluated rule: its state, the measured number, and a message.

    `codes` are the unknown codes that a rule fires on, most frequent first.
    """

    rule: AlertRule
    state: AlertState
    value: float | None
    message: str
    since: datetime
    until: datetime
    codes: tuple[str, ...] = ()


class _RuleResult(NamedTuple):
    state: AlertState
    value: float | None
    message: str
    codes: tuple[str, ...] = ()


def evaluate_rules(
    rules: Iterable[AlertRule], source: CountSource, now: datetime, registry: Registry
) -> list[Alert]:
    """Return the alert of each rule at a moment. Unknown counts never make a rule quiet."""
    return [_evaluate_rule(rule, source, now, registry) for rule in rules]


def _evaluate_rule(
    rule: AlertRule, source: CountSource, now: datetime, registry: Registry
) -> Alert:
    first = _judge_rule(rule, source, now, registry)
    for moment in _hold_moments(rule.hold, now) if first.state is AlertState.FIRING else ():
        then = _judge_rule(rule, source, moment, registry)
        if then.state is not AlertState.FIRING:
            why = f"not for {describe_period(rule.hold)} yet: {first.message}"
            first = _RuleResult(then.state, first.value, why)
            break
    state, value, message, codes = first
    return Alert(rule, state, value, message, now - rule.window, now, codes)


def _hold_moments(hold: timedelta, now: datetime) -> list[datetime]:
    """Return moments spread over the time for which a rule must have fired."""
    return [now - hold * step / _HOLD_CHECKS for step in range(1, _HOLD_CHECKS + 1)] if hold else []


def _judge_rule(
    rule: AlertRule, source: CountSource, now: datetime, registry: Registry
) -> _RuleResult:
    began = now - rule.window
    counts = source.count_between(began, now)
    if rule.kind is AlertKind.COUNT:
        return _judge_count(rule, counts)
    if rule.kind is AlertKind.SHARE:
        return _judge_share(rule, counts, registry)
    before = source.count_between(began - rule.before, began)
    if rule.kind is AlertKind.RATE_CHANGE:
        return _judge_change(rule, counts, before)
    return _judge_unknown_codes(rule, counts, before, registry)


def _judge_count(rule: AlertRule, counts: DecisionCounts) -> _RuleResult:
    number = counts.count_selected(_rule_selector(rule))
    # INVARIANT: counts that are not complete can make a rule fire, and never make it quiet.
    if number is None or (counts.problem and number <= rule.threshold):
        return _unjudged_result(counts, number)
    state = AlertState.FIRING if number > rule.threshold else AlertState.QUIET
    limit = (
        f"over {rule.limit_text}" if state is AlertState.FIRING else f"not over {rule.limit_text}"
    )
    said = f"{_selected_value(rule)}: {number} in the last {describe_period(rule.window)}, {limit}"
    return _RuleResult(state, number, said)


def _judge_share(rule: AlertRule, counts: DecisionCounts, registry: Registry) -> _RuleResult:
    number = counts.count_selected(_rule_selector(rule))
    whole = counts.decisions
    if rule.whole is ShareWhole.REFUSALS:
        whole = _count_refusals(counts, registry)
    if number is None or whole is None or counts.problem:
        return _unjudged_result(counts, number)
    if whole < rule.minimum or not whole:
        few = f"{whole} {rule.whole} in the last {describe_period(rule.window)}: too few to tell"
        return _RuleResult(AlertState.QUIET, None, f"{_selected_value(rule)}: {few}")
    percent = 100 * number / whole
    state = AlertState.FIRING if percent > rule.threshold else AlertState.QUIET
    limit = "over" if state is AlertState.FIRING else "not over"
    said = f"{percent:.3g} % of {whole} {rule.whole} in the last {describe_period(rule.window)}"
    return _RuleResult(
        state, percent, f"{_selected_value(rule)}: {said}, {limit} {rule.limit_text} %"
    )


def _judge_change(rule: AlertRule, counts: DecisionCounts, before: DecisionCounts) -> _RuleResult:
    number, earlier = (
        counts.count_selected(_rule_selector(rule)),
        before.count_selected(_rule_selector(rule)),
    )
    problem = counts.problem or before.problem
    if number is None or earlier is None or not _are_counted(counts, before) or problem:
        return _unjudged_result(counts if counts.problem else before, number)
    assert counts.decisions is not None
    assert before.decisions is not None
    if number < rule.minimum or before.decisions < rule.minimum:
        few = f"{number} in the last {describe_period(rule.window)}, {before.decisions} decisions before it"
        return _RuleResult(
            AlertState.QUIET, None, f"{_selected_value(rule)}: {few}: too few to compare"
        )
    now_rate, then_rate = number / counts.decisions, earlier / before.decisions
    # Compare counts, not rates, so that rounding does not matter.
    grown = number * before.decisions >= rule.threshold * earlier * counts.decisions
    state = AlertState.FIRING if grown else AlertState.QUIET
    said = f"{now_rate:.1%} of decisions in the last {describe_period(rule.window)}"
    against = f"{then_rate:.1%} in the {describe_period(rule.before)} before"
    factor = now_rate / then_rate if then_rate else None
    return _RuleResult(state, factor, f"{_selected_value(rule)}: {said}, {against}")


def _judge_unknown_codes(
    rule: AlertRule, counts: DecisionCounts, before: DecisionCounts, registry: Registry
) -> _RuleResult:
    new = {
        code: number
        for code, number in counts.codes.items()
        if code not in registry and code not in before.codes
    }
    problem = counts.problem or before.problem
    # Incomplete earlier counts can make an old code look new, so new codes still fire.
    if problem and not new:
        return _unjudged_result(counts if counts.problem else before, None)
    if not new:
        said = f"no new unknown code in the last {describe_period(rule.window)}"
        return _RuleResult(AlertState.QUIET, 0, said)
    ranked = sorted(new, key=lambda code: (-new[code], code))
    named = ", ".join(f"{code} ({new[code]})" for code in ranked[:_MAX_NAMED_CODES])
    more = f" and {len(new) - _MAX_NAMED_CODES} more" if len(new) > _MAX_NAMED_CODES else ""
    said = f"no registry knows {named}{more}, seen in the last {describe_period(rule.window)}"
    return _RuleResult(AlertState.FIRING, len(new), said, tuple(ranked))


def _unjudged_result(counts: DecisionCounts, number: int | None) -> _RuleResult:
    why = counts.problem or "the source does not tell it"
    return _RuleResult(AlertState.UNJUDGED, number, f"could not judge: {why}")


def _count_refusals(counts: DecisionCounts, registry: Registry) -> int:
    """Return the number of refusing reasons; unknown codes count as refusals."""
    allowing = {entry.code for entry in registry if entry.effect is not Effect.REFUSE}
    return sum(number for code, number in counts.codes.items() if code not in allowing)


def _are_counted(counts: DecisionCounts, before: DecisionCounts) -> bool:
    return counts.decisions is not None and before.decisions is not None


def _rule_selector(rule: AlertRule) -> DecisionSelector:
    assert rule.selector is not None, "a rule of this kind says what it counts"
    return rule.selector


def _selected_value(rule: AlertRule) -> str:
    return _rule_selector(rule).value
