"""Alerts as others read them: plain JSON, a Slack message, PagerDuty events."""

from collections.abc import Iterator, Sequence
from typing import Any

from demur.codes.vocabulary import Severity
from demur.gate.clock import format_timestamp
from demur.observe.alerts.evaluate import Alert, AlertState
from demur.observe.alerts.notice import AlertNotice

__all__ = ["alert_json", "dedup_key", "json_message", "pagerduty_events", "slack_message"]

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
_MAX_SECTION_LENGTH = 3000
_MAX_SECTIONS = 49


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
    firing = [alert.rule.id for alert in notice.alerts if alert.state is AlertState.FIRING]
    unjudged = [alert.rule.id for alert in notice.alerts if alert.state is AlertState.UNJUDGED]
    said = [
        *([f"firing: {', '.join(firing)}"] if firing else []),
        *([f"could not judge: {', '.join(unjudged)}"] if unjudged else []),
        *([f"over: {', '.join(a.rule.id for a in notice.resolved)}"] if notice.resolved else []),
    ]
    head = f"demur {_escape_slack(origin)}".rstrip()
    sections = [_slack_section(_slack_text(alert)) for alert in (*notice.alerts, *notice.resolved)]
    left_out = len(sections) - _MAX_SECTIONS
    if left_out > 0:
        sections = [*sections[:_MAX_SECTIONS], _slack_section(f"and {left_out} more")]
    return {"text": f"{head}: {'; '.join(said)}", "blocks": sections}


def _slack_section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_MAX_SECTION_LENGTH]}}


def _slack_text(alert: Alert) -> str:
    rule = alert.rule
    mark = _SLACK_MARKS.get(alert.state, _RESOLVED_MARK)
    runbook = (
        f"\n_{_escape_slack(rule.runbook)}_" if rule.runbook and alert.state in _SLACK_MARKS else ""
    )
    head = f"{mark} *{rule.id}* ({rule.severity})"
    return f"{head}\n{_escape_slack(alert.message)}\n{_escape_slack(rule.description)}{runbook}"


def _escape_slack(text: str) -> str:
    """Return text escaped for Slack: no links, no mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def pagerduty_events(
    notice: AlertNotice, routing_key: str, origin: str = ""
) -> Sequence[dict[str, Any]]:
    """Return an event (Events API v2) for each alert, which triggers or resolves its incident."""
    return [
        *_pagerduty_alert_events(notice.alerts, "trigger", routing_key, origin),
        *_pagerduty_alert_events(notice.resolved, "resolve", routing_key, origin),
    ]


def _pagerduty_alert_events(
    alerts: Sequence[Alert], action: str, routing_key: str, origin: str
) -> Iterator[dict[str, Any]]:
    for alert in alerts:
        event = {
            "routing_key": routing_key,
            "event_action": action,
            "dedup_key": dedup_key(alert, origin),
        }
        yield (
            event
            if action == "resolve"
            else {**event, "payload": _pagerduty_payload(alert, origin)}
        )


def _pagerduty_payload(alert: Alert, origin: str) -> dict[str, Any]:
    rule = alert.rule
    return {
        "summary": f"{rule.id}: {alert.message}"[:_MAX_SUMMARY_LENGTH],
        "source": origin or "demur",
        "severity": _PAGERDUTY_SEVERITY[rule.severity],
        "timestamp": format_timestamp(alert.until),
        "component": "demur",
        "class": str(rule.kind),
        "custom_details": alert_json(alert, origin),
    }
