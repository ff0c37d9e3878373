"""Evaluate alert rules, decide which alerts to deliver, and write them as messages.

Evaluation is pure: the same counts and time give the same alerts. Messages are plain JSON, a
Slack message or PagerDuty events.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, Severity
from demur.errors import InputError
from demur.gate.clock import format_timestamp
from demur.observe.alerts.counts import CountSource, DecisionCounts
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    DecisionSelector,
    ShareWhole,
    describe_period,
)

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


class _Result(NamedTuple):
    state: AlertState
    value: float | None
    message: str
    codes: tuple[str, ...] = ()


def evaluate_rules(
    rules: Iterable[AlertRule], source: CountSource, now: datetime, registry: Registry
) -> list[Alert]:
    """Return the alert of each rule at a moment. Unknown counts never make a rule quiet."""
    return [_evaluate(rule, source, now, registry) for rule in rules]


def _evaluate(rule: AlertRule, source: CountSource, now: datetime, registry: Registry) -> Alert:
    result = _judge_rule(rule, source, now, registry)
    if rule.hold and result.state is AlertState.FIRING:
        # It must have fired at moments spread over the time before, too.
        for step in range(1, _HOLD_CHECKS + 1):
            earlier = _judge_rule(rule, source, now - rule.hold * step / _HOLD_CHECKS, registry)
            if earlier.state is not AlertState.FIRING:
                why = f"not for {describe_period(rule.hold)} yet: {result.message}"
                result = _Result(earlier.state, result.value, why)
                break
    state, value, message, codes = result
    return Alert(rule, state, value, message, now - rule.window, now, codes)


def _judge_rule(rule: AlertRule, source: CountSource, now: datetime, registry: Registry) -> _Result:
    began = now - rule.window
    counts = source.count_between(began, now)
    if rule.kind is AlertKind.COUNT:
        number = counts.count_selected(_rule_selector(rule))
        # INVARIANT: counts that are not complete can make a rule fire, and never make it quiet.
        if number is None or (counts.problem and number <= rule.threshold):
            return _unjudged_result(counts, number)
        over = number > rule.threshold
        message = f"{number} in {_last(rule)}, {'' if over else 'not '}over {rule.limit_text}"
        return _result(rule, number, message, firing=over)
    if rule.kind is AlertKind.SHARE:
        return _judge_share(rule, counts, registry)
    before = source.count_between(began - rule.before, began)
    if rule.kind is AlertKind.RATE_CHANGE:
        return _judge_change(rule, counts, before)
    return _judge_unknown(rule, counts, before, registry)


def _judge_share(rule: AlertRule, counts: DecisionCounts, registry: Registry) -> _Result:
    number = counts.count_selected(_rule_selector(rule))
    whole = counts.decisions
    if rule.whole is ShareWhole.REFUSALS:
        whole = _count_refusals(counts, registry)
    if number is None or whole is None or counts.problem:
        return _unjudged_result(counts, number)
    if whole < rule.minimum or not whole:
        few = f"{whole} {rule.whole} in {_last(rule)}: too few to tell"
        return _result(rule, None, few, firing=False)
    percent = 100 * number / whole
    over = percent > rule.threshold
    share = f"{percent:.3g} % of {whole} {rule.whole} in {_last(rule)}"
    message = f"{share}, {'' if over else 'not '}over {rule.limit_text} %"
    return _result(rule, percent, message, firing=over)


def _judge_change(rule: AlertRule, counts: DecisionCounts, before: DecisionCounts) -> _Result:
    selector = _rule_selector(rule)
    number, earlier = counts.count_selected(selector), before.count_selected(selector)
    unknown = None in {number, earlier, counts.decisions, before.decisions}
    if unknown or counts.problem or before.problem:
        return _unjudged_result(counts if counts.problem else before, number)
    assert number is not None
    assert earlier is not None
    assert counts.decisions is not None
    assert before.decisions is not None
    if number < rule.minimum or before.decisions < rule.minimum:
        few = f"{number} in {_last(rule)}, {before.decisions} decisions before it"
        return _result(rule, None, f"{few}: too few to compare", firing=False)
    now_rate, then_rate = number / counts.decisions, earlier / before.decisions
    # Compare counts, not rates, so that rounding does not matter.
    grown = number * before.decisions >= rule.threshold * earlier * counts.decisions
    message = f"{now_rate:.1%} of decisions in {_last(rule)}"
    against = f"{then_rate:.1%} in the {describe_period(rule.before)} before"
    factor = now_rate / then_rate if then_rate else None
    return _result(rule, factor, f"{message}, {against}", firing=grown)


def _judge_unknown(
    rule: AlertRule, counts: DecisionCounts, before: DecisionCounts, registry: Registry
) -> _Result:
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
        return _Result(AlertState.QUIET, 0, f"no new unknown code in {_last(rule)}")
    ranked = sorted(new, key=lambda code: (-new[code], code))
    named = _name_first([f"{code} ({new[code]})" for code in ranked])
    message = f"no registry knows {named}, seen in {_last(rule)}"
    return _Result(AlertState.FIRING, len(new), message, tuple(ranked))


def _name_first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED_CODES} more" if len(names) > _MAX_NAMED_CODES else ""
    return f"{', '.join(names[:_MAX_NAMED_CODES])}{more}"


def _last(rule: AlertRule) -> str:
    return f"the last {describe_period(rule.window)}"


def _result(rule: AlertRule, value: float | None, message: str, *, firing: bool) -> _Result:
    state = AlertState.FIRING if firing else AlertState.QUIET
    return _Result(state, value, f"{_rule_selector(rule).label}: {message}")


def _unjudged_result(counts: DecisionCounts, number: int | None) -> _Result:
    why = counts.problem or "the source does not tell it"
    return _Result(AlertState.UNJUDGED, number, f"could not judge: {why}")


def _count_refusals(counts: DecisionCounts, registry: Registry) -> int:
    """Return the number of refusing reasons; unknown codes count as refusals."""
    allowing = {entry.code for entry in registry if entry.effect is not Effect.REFUSE}
    return sum(number for code, number in counts.codes.items() if code not in allowing)


def _rule_selector(rule: AlertRule) -> DecisionSelector:
    assert rule.selector is not None, "a rule of this kind says what it counts"
    return rule.selector


_STATE_SCHEMA_VERSION = "alert_state.v1"
# Bounds the state file and the alerts if someone makes up codes.
_MAX_CODES = 1_000


class AlertDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The last delivery for a rule: time, state, and codes named since the cooldown began."""

    at: datetime
    state: AlertState
    codes: tuple[str, ...] = ()


class _AlertStateFile(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: str
    deliveries: dict[str, AlertDelivery] = msgspec.field(name="told")


class AlertNotice(NamedTuple):
    """The alerts to deliver, those that are resolved, and the deliveries to remember."""

    alerts: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    deliveries: Mapping[str, AlertDelivery]


def make_notice(
    alerts: Iterable[Alert], deliveries: Mapping[str, AlertDelivery], now: datetime
) -> AlertNotice:
    """Return the notice to deliver, given the earlier deliveries.

    A rule that cannot be judged is delivered like one that fires, or it would go unnoticed. A
    cooldown covers only what was delivered: a new code is delivered at once.
    """
    new: list[Alert] = []
    over: list[Alert] = []
    later: dict[str, AlertDelivery] = {}
    for alert in alerts:
        rule = alert.rule
        before = deliveries.get(rule.id)
        if alert.state is AlertState.QUIET:
            over += [alert] if before is not None else []
        elif before is None or before.state is not alert.state or now >= before.at + rule.cooldown:
            new.append(alert)
            codes = alert.codes[:_MAX_CODES]
            later[rule.id] = AlertDelivery(at=now, state=alert.state, codes=codes)
        elif more := _unreported_codes(alert, before):
            # Name the new codes first, which the message may omit.
            message = f"new since the last alert: {_name_first(more)}; {alert.message}"
            new.append(alert._replace(message=message))
            codes = (*before.codes, *more)[:_MAX_CODES]
            later[rule.id] = AlertDelivery(at=now, state=alert.state, codes=codes)
        else:
            later[rule.id] = before
    return AlertNotice(tuple(new), tuple(over), later)


def _unreported_codes(alert: Alert, delivery: AlertDelivery) -> list[str]:
    """Return the codes not delivered yet; none once too many are remembered."""
    delivered = set(delivery.codes)
    full = len(delivery.codes) >= _MAX_CODES
    return [] if full else [code for code in alert.codes if code not in delivered]


def load_deliveries(raw: bytes, where: str) -> Mapping[str, AlertDelivery]:
    """Return the deliveries that `dump_deliveries` wrote.

    Raises:
        InputError: The file is not a state of alerts.
    """
    try:
        file = msgspec.json.decode(raw, type=_AlertStateFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a state of alerts: {error}", where=where) from error
    if file.schema_version != _STATE_SCHEMA_VERSION:
        problem = f"unknown schema version `{file.schema_version}`"
        raise InputError(problem, where=where, help=f"this is {_STATE_SCHEMA_VERSION}")
    if any(one.at.tzinfo is None for one in file.deliveries.values()):
        raise InputError("not a state of alerts: a time has no zone", where=where)
    return file.deliveries


def dump_deliveries(deliveries: Mapping[str, AlertDelivery]) -> bytes:
    """Return the deliveries as bytes, for the next check."""
    file = _AlertStateFile(schema_version=_STATE_SCHEMA_VERSION, deliveries=dict(deliveries))
    return msgspec.json.encode(file) + b"\n"


# PagerDuty's names for severities; it has four.
_PAGERDUTY_SEVERITY = {
    Severity.CRITICAL: "critical",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "warning",
    Severity.INFO: "info",
}
_SLACK_MARKS = {AlertState.FIRING: ":rotating_light:", AlertState.UNJUDGED: ":grey_question:"}
_RESOLVED_MARK = ":white_check_mark:"
# The vendors' limits.
_MAX_SUMMARY_LENGTH = 1024
_MAX_SECTION_LENGTH, _MAX_SECTIONS = 3000, 49


def dedup_key(alert: Alert, origin: str = "") -> str:
    """Return the key that groups messages about one rule; `origin` separates systems."""
    return f"demur/{origin}/{alert.rule.id}" if origin else f"demur/{alert.rule.id}"


def alert_json(alert: Alert, origin: str = "") -> dict[str, Any]:
    """Return an alert as plain JSON."""
    rule = alert.rule
    return {
        "id": rule.id,
        "state": str(alert.state),
        "kind": str(rule.kind),
        "severity": str(rule.severity),
        "value": alert.value,
        "threshold": rule.threshold,
        "message": alert.message,
        "description": rule.description,
        "runbook": rule.runbook,
        "since": format_timestamp(alert.since),
        "until": format_timestamp(alert.until),
        "dedup_key": dedup_key(alert, origin),
    }


def json_message(notice: AlertNotice, origin: str = "") -> dict[str, Any]:
    """Return a notice as one JSON document."""
    return {
        "schema_version": "alerts.v1",
        "alerts": [alert_json(alert, origin) for alert in notice.alerts],
        "resolved": [alert_json(alert, origin) for alert in notice.resolved],
    }


def slack_message(notice: AlertNotice, origin: str = "") -> dict[str, Any]:
    """Return a notice as one message for a Slack webhook."""
    groups = {
        "firing": [one for one in notice.alerts if one.state is AlertState.FIRING],
        "could not judge": [one for one in notice.alerts if one.state is AlertState.UNJUDGED],
        "over": notice.resolved,
    }
    named = {name: ", ".join(one.rule.id for one in alerts) for name, alerts in groups.items()}
    parts = [f"{name}: {ids}" for name, ids in named.items() if ids]
    head = f"demur {escape_slack(origin)}".rstrip()
    sections = [slack_section(_slack_text(alert)) for alert in (*notice.alerts, *notice.resolved)]
    left_out = len(sections) - _MAX_SECTIONS
    if left_out > 0:
        sections = [*sections[:_MAX_SECTIONS], slack_section(f"and {left_out} more")]
    return {"text": f"{head}: {'; '.join(parts)}", "blocks": sections}


def slack_section(text: str) -> dict[str, Any]:
    """Return a section of a Slack message, as long as Slack takes it."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_MAX_SECTION_LENGTH]}}


def _slack_text(alert: Alert) -> str:
    rule = alert.rule
    mark = _SLACK_MARKS.get(alert.state, _RESOLVED_MARK)
    runbook = (
        f"\n_{escape_slack(rule.runbook)}_" if rule.runbook and alert.state in _SLACK_MARKS else ""
    )
    head = f"{mark} *{rule.id}* ({rule.severity})"
    return f"{head}\n{escape_slack(alert.message)}\n{escape_slack(rule.description)}{runbook}"


def escape_slack(text: str) -> str:
    """Return text escaped for Slack: no links, no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def pagerduty_events(
    notice: AlertNotice, routing_key: str, origin: str = ""
) -> Sequence[dict[str, Any]]:
    """Return an event (Events API v2) for each alert, which triggers or resolves its incident."""
    return [
        *(_pagerduty_event(alert, "trigger", routing_key, origin) for alert in notice.alerts),
        *(_pagerduty_event(alert, "resolve", routing_key, origin) for alert in notice.resolved),
    ]


def _pagerduty_event(alert: Alert, action: str, routing_key: str, origin: str) -> dict[str, Any]:
    rule, key = alert.rule, dedup_key(alert, origin)
    event = {"routing_key": routing_key, "event_action": action, "dedup_key": key}
    if action == "resolve":
        return event
    payload = {
        "summary": f"{rule.id}: {alert.message}"[:_MAX_SUMMARY_LENGTH],
        "source": origin or "demur",
        "severity": _PAGERDUTY_SEVERITY[rule.severity],
        "timestamp": format_timestamp(alert.until),
        "component": "demur",
        "class": str(rule.kind),
        "custom_details": alert_json(alert, origin),
    }
    return {**event, "payload": payload}
