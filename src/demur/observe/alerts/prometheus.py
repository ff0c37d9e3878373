"""Alert rules for Prometheus: the same numbers, over demur's metrics."""

from collections.abc import Iterable
from typing import Any

import yaml

from demur.observe.alerts.periods import written
from demur.observe.alerts.rule import AlertRule, Field, Kind, Whole
from demur.observe.labels import OTHER

__all__ = ["condition", "limit", "measured", "prometheus_rules"]

_SELECTED = {
    Field.CODE: ("demur_reasons_total", "code"),
    Field.CLASS: ("demur_decision_classes_total", "class"),
    Field.VERDICT: ("demur_decisions_total", "verdict"),
    Field.OUTPUT: ("demur_decisions_total", "output"),
}


def prometheus_rules(rules: Iterable[AlertRule]) -> str:
    """Return a rule file."""
    group = {"name": "demur", "rules": [_rule(rule) for rule in rules]}
    text = yaml.safe_dump({"groups": [group]}, sort_keys=False, allow_unicode=True, width=1000)
    return f"# Written by `demur alerts export`; change the alert rules instead.\n{text}"


def _rule(rule: AlertRule) -> dict[str, Any]:
    notes = {"summary": _literal(rule.description)}
    if rule.runbook:
        link = rule.runbook.startswith(("https://", "http://"))
        notes["runbook_url" if link else "runbook"] = _literal(rule.runbook)
    held = {"for": written(rule.hold)} if rule.hold else {}
    return {
        "alert": rule.id,
        "expr": condition(rule),
        **held,
        "labels": {"severity": str(rule.severity), "source": "demur"},
        "annotations": notes,
    }


def condition(rule: AlertRule) -> str:
    """Return the expression that is true while a rule fires."""
    parts = [f"{measured(rule)} {limit(rule)}", *_enough(rule)]
    return " and ".join(parts)


def limit(rule: AlertRule) -> str:
    """Return the comparison of a rule: its operator and threshold."""
    operator = ">=" if rule.kind is Kind.RATE_CHANGE else ">"
    return f"{operator} {rule.limit}"


def measured(rule: AlertRule) -> str:
    """Return the expression that a rule compares with its threshold."""
    window = written(rule.window)
    if rule.kind is Kind.NEW_UNKNOWN_CODE:
        return f'sum(increase(demur_reasons_total{{code="{OTHER}"}}[{window}]))'
    if rule.kind is Kind.COUNT:
        return _selected(rule, window)
    if rule.kind is Kind.SHARE:
        return f"100 * {_selected(rule, window)} / {_whole(rule, window)}"
    before = f"{written(rule.before)}] offset {window}"
    now_rate = f"{_selected(rule, window)} / {_whole(rule, window)}"
    # With no decisions before, the quotient is infinite, and so above each factor.
    then_rate = f"{_selected(rule, before)} / {_whole(rule, before)}"
    return f"({now_rate}) / ({then_rate})"


def _enough(rule: AlertRule) -> list[str]:
    """Return the conditions on the minimum number of decisions."""
    window = written(rule.window)
    if rule.kind is Kind.SHARE:
        return [f"{_whole(rule, window)} >= {rule.minimum}"]
    if rule.kind is Kind.RATE_CHANGE:
        before = f"{written(rule.before)}] offset {window}"
        return [
            f"{_selected(rule, window)} >= {rule.minimum}",
            f"{_whole(rule, before)} >= {rule.minimum}",
        ]
    return []


def _selected(rule: AlertRule, window: str) -> str:
    assert rule.selector is not None
    metric, label = _SELECTED[rule.selector.field]
    return _increase(f'{metric}{{{label}="{rule.selector.value}"}}', window)


def _whole(rule: AlertRule, window: str) -> str:
    refusals = rule.whole is Whole.REFUSALS
    return _increase("demur_reasons_total" if refusals else "demur_decisions_total", window)


def _increase(series: str, window: str) -> str:
    """Return the increase of a counter; `window` may carry an offset after its bracket."""
    span, bracket, offset = window.partition("]")
    return f"sum(increase({series}[{span}]{offset if bracket else ''}))"


def _literal(text: str) -> str:
    """Return text escaped for Prometheus templates."""
    return text.replace("{{", '{{ "{{" }}')
