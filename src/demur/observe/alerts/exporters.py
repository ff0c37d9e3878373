"""Alert rules for other tools: Prometheus rules, Datadog monitors, a Grafana dashboard.

Datadog's check drops `_total`, adds `.count` and lowercases tags. A monitor cannot state the
minimum number of decisions that a share needs, so its message does.
"""

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    SelectorField,
    ShareWhole,
    describe_period,
    format_period,
)
from demur.observe.labels import OTHER

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
    notes = {"summary": rule.description}
    if rule.runbook:
        link = rule.runbook.startswith(("https://", "http://"))
        notes["runbook_url" if link else "runbook"] = rule.runbook
    held = {"for": format_period(rule.hold)} if rule.hold else {}
    return {
        "alert": rule.id,
        "expr": rule_condition(rule),
        **held,
        "labels": {"severity": str(rule.severity), "source": "demur"},
        # Prometheus reads double braces as a template.
        "annotations": {key: text.replace("{{", '{{ "{{" }}') for key, text in notes.items()},
    }


def rule_condition(rule: AlertRule) -> str:
    """Return the expression that is true while a rule fires."""
    return " and ".join([f"{rule_expression(rule)} {rule_limit(rule)}", *_minimum_conditions(rule)])


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
    if rule.selector.codes:
        codes = "|".join(map(re.escape, rule.selector.codes)).replace("\\", "\\\\")
        return _counter_increase(f'demur_reasons_total{{code=~"{codes}"}}', window)
    metric, label = _PROMETHEUS_SELECTORS[rule.selector.field]
    return _counter_increase(f'{metric}{{{label}="{rule.selector.value}"}}', window)


def _whole_increase(rule: AlertRule, window: str) -> str:
    refusals = rule.whole is ShareWhole.REFUSALS
    return _counter_increase("demur_reasons_total" if refusals else "demur_decisions_total", window)


def _counter_increase(series: str, window: str) -> str:
    """Return the increase of a counter; `window` may carry an offset after its bracket."""
    span, bracket, offset = window.partition("]")
    return f"sum(increase({series}[{span}]{offset if bracket else ''}))"


# The metrics of demur; in Datadog the namespace replaces the prefix `demur_`.
DATADOG_METRICS = (
    "decisions",
    "decision_classes",
    "reasons",
    "refusals",
    "storage_unavailable",
    "decision_seconds",
    "guard_activations",
    "guard_runs",
    "guard_seconds",
    "http_requests",
    "http_request_seconds",
    "approval_notices",
)
_DATADOG_SELECTORS = {
    SelectorField.CODE: ("demur.reasons.count", "code"),
    SelectorField.CLASS: ("demur.decision_classes.count", "class"),
    SelectorField.VERDICT: ("demur.decisions.count", "verdict"),
    SelectorField.OUTPUT: ("demur.decisions.count", "output"),
}
_DATADOG_PRIORITY = {"critical": 1, "high": 2, "medium": 3, "low": 4, "info": 5}


def datadog_monitors(rules: Iterable[AlertRule]) -> list[dict[str, Any]]:
    """Return one monitor for each rule, as the API takes them."""
    return [_make_monitor(rule) for rule in rules]


def datadog_check(endpoint: str = "http://localhost:8000/metrics") -> str:
    """Return the configuration of the Agent's check (`openmetrics.d/conf.yaml`)."""
    instance = {
        "openmetrics_endpoint": endpoint,
        "namespace": "demur",
        "metrics": [{f"demur_{name}": name} for name in DATADOG_METRICS],
        "histogram_buckets_as_distributions": True,
    }
    text = yaml.safe_dump({"instances": [instance]}, sort_keys=False)
    return f"# Written by `demur alerts export`: gives the metrics that its monitors watch.\n{text}"


def _make_monitor(rule: AlertRule) -> dict[str, Any]:
    query, critical = _monitor_query(rule)
    options: dict[str, Any] = {
        "thresholds": {"critical": critical},
        "notify_no_data": False,
        "require_full_window": False,
        "include_tags": True,
    }
    minutes = int(rule.cooldown.total_seconds() // 60)
    if minutes:
        options["renotify_interval"] = max(minutes, 10)
    lines = [rule.description, rule.runbook]
    if rule.kind in {AlertKind.SHARE, AlertKind.RATE_CHANGE}:
        lines.append(f"Means little with fewer than {rule.minimum} {rule.whole}.")
    if rule.hold:
        lines.append(f"Meant if it stays so for {describe_period(rule.hold)}.")
    # Datadog reads double braces as a template.
    return {
        "name": f"demur: {rule.id}",
        "type": "query alert",
        "query": query,
        "message": "\n".join(line for line in lines if line).replace("{{", "{ {"),
        "tags": ["source:demur", f"severity:{rule.severity}", f"rule:{rule.id.lower()}"],
        "priority": _DATADOG_PRIORITY[rule.severity],
        "options": options,
    }


def _monitor_query(rule: AlertRule) -> tuple[str, float]:
    """Return the query of a rule, and its threshold."""
    window = f"last_{format_period(rule.window)}"
    if rule.kind is AlertKind.NEW_UNKNOWN_CODE:
        counted = f"sum:demur.reasons.count{{code:{OTHER}}}.as_count()"
        return f"sum({window}):{counted} > 0", 0
    if rule.kind is AlertKind.COUNT:
        return f"sum({window}):{_selected_count(rule)} > {rule.limit_text}", rule.threshold
    whole = "reasons" if rule.whole is ShareWhole.REFUSALS else "decisions"
    share = f"100 * {_selected_count(rule)} / sum:demur.{whole}.count{{*}}.as_count()"
    if rule.kind is AlertKind.SHARE:
        return f"sum({window}):{share} > {rule.limit_text}", rule.threshold
    more = round(100 * (rule.threshold - 1), 6)
    shift = f"last_{format_period(rule.before)}"
    return f"pct_change(sum({window}),{shift}):{share} >= {more:.10g}", more


def _selected_count(rule: AlertRule) -> str:
    assert rule.selector is not None
    if rule.selector.codes:
        codes = ",".join(rule.selector.codes).lower()
        return f"sum:demur.reasons.count{{code IN ({codes})}}.as_count()"
    metric, tag = _DATADOG_SELECTORS[rule.selector.field]
    return f"sum:{metric}{{{tag}:{rule.selector.value.lower()}}}.as_count()"


_PANEL_UNITS = {AlertKind.SHARE: "percent", AlertKind.RATE_CHANGE: "none"}


def grafana_dashboard(rules: Iterable[AlertRule]) -> dict[str, Any]:
    """Return the dashboard: `grafana_dashboard.json` with a panel for each rule.

    The data source is a variable, so that the file loads into any Grafana as it is.
    """
    raw = (files("demur.observe.alerts") / "grafana_dashboard.json").read_bytes()
    dashboard: dict[str, Any] = msgspec.json.decode(raw)
    template = msgspec.json.encode(dashboard.pop("alert_panel"))
    last = dashboard["panels"][-1]
    for number, rule in enumerate(rules):
        panel = msgspec.json.decode(template)
        place = panel["gridPos"]
        place["x"] = place["w"] * (number % 3)
        place["y"] = last["gridPos"]["y"] + last["gridPos"]["h"] + place["h"] * (number // 3)
        panel["title"] = f"{rule.id} ({rule.severity}, {describe_period(rule.window)})"
        panel["description"] = rule.description
        panel["targets"][0] |= {"expr": rule_expression(rule), "legendFormat": rule.id}
        defaults = panel["fieldConfig"]["defaults"]
        defaults["unit"] = _PANEL_UNITS.get(rule.kind, "short")
        defaults["thresholds"]["steps"][-1]["value"] = rule.threshold
        panel["id"] = last["id"] + 1 + number
        dashboard["panels"].append(panel)
    return dashboard
