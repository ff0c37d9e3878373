"""Alert rules for Prometheus: the same numbers, over demur's metrics."""

from collections.abc import Iterable
from typing import Any

import yaml

from demur.observe.alerts.periods import format_period
from demur.observe.alerts.rule import AlertRule, SelectorField, AlertKind, ShareWhole
from demur.observe.labels import OTHER

__all__ = ["rule_condition", "rule_limit", "rule_expression", "prometheus_rules"]

_PROMETHEUS_SELECTORS = {
    SelectorField.CODE: ("demur_reasons_total", "code"),
    SelectorField.CLASS: ("demur_decision_classes_total", "class"),
    SelectorField.VERDICT: ("demur_decisions_total", "verdict"),
    SelectorField.OUTPUT: ("demur_decisions_total", "output"),
}


def prometheus_rules(rules: Iterable[AlertRule]) -> str:
    """Return a rule file."""
    group = {"name": "demur", "rules": [_make_rule(rule) for rule in rules]}
    text = yaml.safe_dump({"groups": [group]}, sort_keys=False, allow_unicode=True, width=1000)
    return f"# Written by `demur alerts export`; change the alert rules instead.\n{text}"


def _make_rule(rule: AlertRule) -> dict[str, Any]:
    notes = {"summary": _escape_template(rule.description)}
    if rule.runbook:
        link = rule.runbook.startswith(("https://", "http://"))
        notes["runbook_url" if link else "runbook"] = _escape_template(rule.runbook)
    held = {"for": format_period(rule.hold)} if rule.hold else {}
    return {
        "alert": rule.id,
        "expr": rule_condition(rule),
        **held,
        "labels": {"severity": str(rule.severity), "source": "demur"},
        "annotations": notes,
    }


def rule_condition(rule: AlertRule) -> str:
    """Return the expression that is true while a rule fires."""
    parts = [f"{rule_expression(rule)} {rule_limit(rule)}", *_minimum_conditions(rule)]
    return " and ".join(parts)


def rule_limit(rule: AlertRule) -> str:
    """Return the comparison of a rule: its operator and threshold."""
    operator = ">=" if rule.kind is AlertKind.RATE_CHANGE else ">"
    return f"{operator} {rule.limit_text}"


def rule_expression(rule: AlertRule) -> str:
    """Return the expression that a rule compares with its threshold."""
    window = format_period(rule.window)
    if rule.kind is AlertKind.NEW_UNKNOWN_CODE:
        return f'sum(increase(demur_reasons_total{{code="{OTHER}"}}[{window}]))'
    if rule.kind is AlertKind.COUNT:
        return _selected_increase(rule, window)
    if rule.kind is AlertKind.SHARE:
        return f"100 * {_selected_increase(rule, window)} / {_whole_increase(rule, window)}"
    before = f"{format_period(rule.before)}] offset {window}"
    now_rate = f"{_selected_increase(rule, window)} / {_whole_increase(rule, window)}"
    # With no decisions before, the quotient is infinite, and so above each factor.
    then_rate = f"{_selected_increase(rule, before)} / {_whole_increase(rule, before)}"
    return f"({now_rate}) / ({then_rate})"


def _minimum_conditions(rule: AlertRule) -> list[str]:
    """Return the conditions on the minimum number of decisions."""
    window = format_period(rule.window)
    if rule.kind is AlertKind.SHARE:
        return [f"{_whole_increase(rule, window)} >= {rule.minimum}"]
    if rule.kind is AlertKind.RATE_CHANGE:
        before = f"{format_period(rule.before)}] offset {window}"
        return [
            f"{_selected_increase(rule, window)} >= {rule.minimum}",
            f"{_whole_increase(rule, before)} >= {rule.minimum}",
        ]
    return []


def _selected_increase(rule: AlertRule, window: str) -> str:
    assert rule.selector is not None
    metric, label = _PROMETHEUS_SELECTORS[rule.selector.field]
    return _counter_increase(f'{metric}{{{label}="{rule.selector.value}"}}', window)


def _whole_increase(rule: AlertRule, window: str) -> str:
    refusals = rule.whole is ShareWhole.REFUSALS
    return _counter_increase("demur_reasons_total" if refusals else "demur_decisions_total", window)


def _counter_increase(series: str, window: str) -> str:
    """Return the increase of a counter; `window` may carry an offset after its bracket."""
    span, bracket, offset = window.partition("]")
    return f"sum(increase({series}[{span}]{offset if bracket else ''}))"


def _escape_template(text: str) -> str:
    """Return text escaped for Prometheus templates."""
    return text.replace("{{", '{{ "{{" }}')
