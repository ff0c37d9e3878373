"""Monitors for Datadog, and the settings of its OpenMetrics check that give their metrics.

The check drops `_total` and adds `.count`; tags are in lower case there. What a monitor cannot
say (the least number of decisions that a share needs) stands in its message.
"""

from collections.abc import Iterable
from typing import Any

import yaml

from demur.codes.vocabulary import Severity
from demur.observe.alerts.periods import describe_period, format_period
from demur.observe.alerts.rule import AlertRule, SelectorField, AlertKind, ShareWhole
from demur.observe.labels import OTHER

__all__ = ["DATADOG_METRICS", "datadog_check", "datadog_monitors"]

# The name of each metric in demur, and in Datadog after the namespace.
DATADOG_METRICS = {
    "demur_decisions": "decisions",
    "demur_decision_classes": "decision_classes",
    "demur_reasons": "reasons",
    "demur_refusals": "refusals",
    "demur_storage_unavailable": "storage_unavailable",
    "demur_decision_seconds": "decision_seconds",
    "demur_guard_activations": "guard_activations",
    "demur_guard_runs": "guard_runs",
    "demur_guard_seconds": "guard_seconds",
}
_DATADOG_SELECTORS = {
    SelectorField.CODE: ("demur.reasons.count", "code"),
    SelectorField.CLASS: ("demur.decision_classes.count", "class"),
    SelectorField.VERDICT: ("demur.decisions.count", "verdict"),
    SelectorField.OUTPUT: ("demur.decisions.count", "output"),
}
_DATADOG_PRIORITY = {
    Severity.CRITICAL: 1,
    Severity.HIGH: 2,
    Severity.MEDIUM: 3,
    Severity.LOW: 4,
    Severity.INFO: 5,
}


def datadog_monitors(rules: Iterable[AlertRule]) -> list[dict[str, Any]]:
    """Return one monitor for each rule, as the API takes them."""
    return [_make_monitor(rule) for rule in rules]


def datadog_check(endpoint: str = "http://localhost:8000/metrics") -> str:
    """Return the configuration of the Agent's check (`openmetrics.d/conf.yaml`)."""
    instance = {
        "openmetrics_endpoint": endpoint,
        "namespace": "demur",
        "metrics": [{name: short} for name, short in DATADOG_METRICS.items()],
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
    return {
        "name": f"demur: {rule.id}",
        "type": "query alert",
        "query": query,
        "message": _monitor_message(rule),
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
    share = f"100 * {_selected_count(rule)} / {_whole_count(rule)}"
    if rule.kind is AlertKind.SHARE:
        return f"sum({window}):{share} > {rule.limit_text}", rule.threshold
    more = round(100 * (rule.threshold - 1), 6)
    shift = f"last_{format_period(rule.before)}"
    return f"pct_change(sum({window}),{shift}):{share} >= {more:.10g}", more


def _selected_count(rule: AlertRule) -> str:
    assert rule.selector is not None
    metric, tag = _DATADOG_SELECTORS[rule.selector.field]
    return f"sum:{metric}{{{tag}:{rule.selector.value.lower()}}}.as_count()"


def _whole_count(rule: AlertRule) -> str:
    refusals = rule.whole is ShareWhole.REFUSALS
    return f"sum:demur.{'reasons' if refusals else 'decisions'}.count{{*}}.as_count()"


def _monitor_message(rule: AlertRule) -> str:
    lines = [rule.description, rule.runbook]
    if rule.kind in {AlertKind.SHARE, AlertKind.RATE_CHANGE}:
        lines.append(f"Means little with fewer than {rule.minimum} {rule.whole}.")
    if rule.hold:
        lines.append(f"Meant if it stays so for {describe_period(rule.hold)}.")
    # Datadog reads double braces as a template.
    return "\n".join(line for line in lines if line).replace("{{", "{ {")
