"""Alerts as others read them: plain JSON, a Slack message, PagerDuty events."""

from collections.abc import Iterator, Sequence
from typing import Any

from demur.codes.vocabulary import Severity
from demur.gate.clock import timestamp
from demur.observe.alerts.evaluate import Alert, State
from demur.observe.alerts.notice import Notice

__all__ = ["alert_json", "dedup_key", "json_message", "pagerduty_events", "slack_message"]

# PagerDuty's names for severities; it has four.
_PAGERDUTY = {
    Severity.CRITICAL: "critical",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "warning",
    Severity.INFO: "info",
}
_MARKS = {State.FIRING: ":rotating_light:", State.UNJUDGED: ":grey_question:"}
_OVER = ":white_check_mark:"
# The vendors' limits.
_LONGEST_SUMMARY = 1024
_LONGEST_SECTION = 3000
_MOST_SECTIONS = 49


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
        "since": timestamp(alert.since),
        "until": timestamp(alert.until),
        "dedup_key": dedup_key(alert, origin),
    }


def json_message(notice: Notice, origin: str = "") -> dict[str, Any]:
    """Return a notice as one JSON document."""
    return {
        "schema_version": "alerts.v1",
        "alerts": [alert_json(alert, origin) for alert in notice.alerts],
        "resolved": [alert_json(alert, origin) for alert in notice.over],
    }


def slack_message(notice: Notice, origin: str = "") -> dict[str, Any]:
    """Return a notice as one message for a Slack webhook."""
    firing = [alert.rule.id for alert in notice.alerts if alert.state is State.FIRING]
    unjudged = [alert.rule.id for alert in notice.alerts if alert.state is State.UNJUDGED]
    said = [
        *([f"firing: {', '.join(firing)}"] if firing else []),
        *([f"could not judge: {', '.join(unjudged)}"] if unjudged else []),
        *([f"over: {', '.join(a.rule.id for a in notice.over)}"] if notice.over else []),
    ]
    head = f"demur {_plain(origin)}".rstrip()
    sections = [_section(_text(alert)) for alert in (*notice.alerts, *notice.over)]
    left_out = len(sections) - _MOST_SECTIONS
    if left_out > 0:
        sections = [*sections[:_MOST_SECTIONS], _section(f"and {left_out} more")]
    return {"text": f"{head}: {'; '.join(said)}", "blocks": sections}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_LONGEST_SECTION]}}


def _text(alert: Alert) -> str:
    rule = alert.rule
    mark = _MARKS.get(alert.state, _OVER)
    runbook = f"\n_{_plain(rule.runbook)}_" if rule.runbook and alert.state in _MARKS else ""
    head = f"{mark} *{rule.id}* ({rule.severity})"
    return f"{head}\n{_plain(alert.message)}\n{_plain(rule.description)}{runbook}"


def _plain(text: str) -> str:
    """Return text escaped for Slack: no links, no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def pagerduty_events(
    notice: Notice, routing_key: str, origin: str = ""
) -> Sequence[dict[str, Any]]:
    """Return an event (Events API v2) for each alert, which triggers or resolves its incident."""
    return [
        *_events(notice.alerts, "trigger", routing_key, origin),
        *_events(notice.over, "resolve", routing_key, origin),
    ]


def _events(
    alerts: Sequence[Alert], action: str, routing_key: str, origin: str
) -> Iterator[dict[str, Any]]:
    for alert in alerts:
        event = {
            "routing_key": routing_key,
            "event_action": action,
            "dedup_key": dedup_key(alert, origin),
        }
        yield event if action == "resolve" else {**event, "payload": _payload(alert, origin)}


def _payload(alert: Alert, origin: str) -> dict[str, Any]:
    rule = alert.rule
    return {
        "summary": f"{rule.id}: {alert.message}"[:_LONGEST_SUMMARY],
        "source": origin or "demur",
        "severity": _PAGERDUTY[rule.severity],
        "timestamp": timestamp(alert.until),
        "component": "demur",
        "class": str(rule.kind),
        "custom_details": alert_json(alert, origin),
    }
