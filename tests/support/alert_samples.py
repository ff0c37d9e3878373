"""Alerts for tests; a test says only what is special about one."""

from datetime import UTC, datetime, timedelta
from typing import Any

from demur.codes.vocabulary import Severity
from demur.observe.alerts.evaluate import Alert, AlertState
from demur.observe.alerts.rules import AlertKind, AlertRule, DecisionSelector, SelectorField

__all__ = ["HOUR", "NOW", "alert", "count_rule"]

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def count_rule(name: str = "A1", **more: Any) -> AlertRule:
    """Return a rule that counts."""
    given: dict[str, Any] = {
        "kind": AlertKind.COUNT,
        "severity": Severity.HIGH,
        "window": HOUR,
        "before": HOUR,
        "description": "too many",
        "runbook": "look",
        "minimum": 1,
        "selector": DecisionSelector(SelectorField.CODE, "RCE_RISK"),
        **more,
    }
    return AlertRule(id=name, **given)


def alert(
    name: str = "A1",
    state: AlertState = AlertState.FIRING,
    *,
    message: str = "RCE_RISK: 3 in the last hour",
    **more: Any,
) -> Alert:
    """Return an alert that fires."""
    return Alert(count_rule(name, **more), state, 3, message, NOW - HOUR, NOW)
