"""Alert rules for other tools: Prometheus rules, Datadog monitors, a Grafana dashboard.

Datadog's check drops `_total`, adds `.count` and lowercases tags. A monitor cannot state the
minimum number of decisions that a share needs, so its message does.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import yaml

from demur.codes.vocabulary import Severity
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


DashboardJson: TypeAlias = dict[str, Any]

_GRAFANA_SCHEMA_VERSION = 39
_DATA_SOURCE_REF = {"type": "prometheus", "uid": "${datasource}"}
_GRID_WIDTH = 24
_RATE_INTERVAL = "$__rate_interval"
_TIME_RANGE = "$__range"
_VERDICT_COLOURS = {"ALLOW": "green", "ESCALATE": "yellow", "DENY": "red", "ABSTAIN": "purple"}
_PANEL_UNITS = {AlertKind.SHARE: "percent", AlertKind.RATE_CHANGE: "none"}


def grafana_dashboard(rules: Iterable[AlertRule]) -> DashboardJson:
    """Return the dashboard."""
    return {
        "title": "demur: decisions and refusals",
        "uid": "demur-refusals",
        "description": "Written by `demur alerts export`; the thresholds are those of the rules.",
        "tags": ["demur"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": _GRAFANA_SCHEMA_VERSION,
        "version": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_DATA_SOURCE_VARIABLE, _SURFACE_VARIABLE]},
        "annotations": {"list": []},
        "links": [],
        "panels": list(
            _place_panels([*_overview_panels(), *_guard_panels(), *_alert_panels(rules)])
        ),
    }


_DATA_SOURCE_VARIABLE: DashboardJson = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "hide": 0,
    "includeAll": False,
    "multi": False,
    "options": [],
    "refresh": 1,
    "regex": "",
}
_SURFACE_VARIABLE: DashboardJson = {
    "name": "surface",
    "label": "Surface",
    "type": "query",
    "datasource": _DATA_SOURCE_REF,
    "query": "label_values(demur_refusals_total, surface)",
    "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    "hide": 0,
    "includeAll": True,
    "allValue": ".*",
    "multi": True,
    "options": [],
    "refresh": 2,
    "regex": "",
    "sort": 1,
}


def _overview_panels() -> Iterator[DashboardJson]:
    yield _row_panel("Decisions")
    yield _stat_panel("Decisions", f"sum(increase(demur_decisions_total[{_TIME_RANGE}]))")
    refused = f'sum(increase(demur_decisions_total{{verdict!="ALLOW"}}[{_TIME_RANGE}]))'
    whole = f"sum(increase(demur_decisions_total[{_TIME_RANGE}]))"
    yield _stat_panel("Not allowed", f"100 * {refused} / {whole}", unit="percent")
    lost = f"sum(increase(demur_storage_unavailable_total[{_TIME_RANGE}]))"
    yield _stat_panel("Not stored", lost, red_from=1)
    unknown = f'sum(increase(demur_reasons_total{{code="_other"}}[{_TIME_RANGE}]))'
    yield _stat_panel("Unknown codes", unknown, red_from=1)
    yield _line_panel(
        "Decisions by verdict",
        ("sum by (verdict) (rate(demur_decisions_total[" + _RATE_INTERVAL + "]))", "{{verdict}}"),
        unit="reqps",
        stacked=True,
        colours=_VERDICT_COLOURS,
    )
    refusals = f'increase(demur_refusals_total{{surface=~"$surface"}}[{_TIME_RANGE}])'
    top = f"topk(15, sum by (code) ({refusals}))"
    yield _bar_panel("Top reasons", top, "{{code}}")
    share = (
        f"100 * topk(10, sum by (code) (rate(demur_reasons_total[{_RATE_INTERVAL}])))"
        f" / scalar(sum(rate(demur_decisions_total[{_RATE_INTERVAL}])))"
    )
    yield _line_panel("Share of decisions by reason", (share, "{{code}}"), unit="percent")
    seconds = f"sum by (le) (rate(demur_decision_seconds_bucket[{_RATE_INTERVAL}]))"
    yield _line_panel("Time of decisions", *_quantile_queries(seconds), unit="s")


def _guard_panels() -> Iterator[DashboardJson]:
    yield _row_panel("Guards")
    seconds = (
        f"histogram_quantile(0.99, sum by (le, surface) "
        f'(rate(demur_guard_seconds_bucket{{surface=~"$surface"}}[{_RATE_INTERVAL}])))'
    )
    yield _line_panel("Time of guards (99 %)", (seconds, "{{surface}}"), unit="s")
    found = (
        f"sum by (surface, code) "
        f'(increase(demur_guard_activations_total{{surface=~"$surface"}}[{_RATE_INTERVAL}]))'
    )
    yield _line_panel("What guards found", (found, "{{surface}} {{code}}"), stacked=True)


def _alert_panels(rules: Iterable[AlertRule]) -> Iterator[DashboardJson]:
    yield _row_panel("Alerts")
    firing = 'sort_desc(ALERTS{source="demur", alertstate="firing"})'
    yield _table_panel("Firing now (of the exported Prometheus rules)", firing)
    for rule in rules:
        title = f"{rule.id} ({rule.severity}, {describe_period(rule.window)})"
        panel = _line_panel(
            title, (rule_expression(rule), rule.id), unit=_PANEL_UNITS.get(rule.kind, "short")
        )
        panel["description"] = rule.description
        defaults = panel["fieldConfig"]["defaults"]
        defaults["custom"]["thresholdsStyle"] = {"mode": "line+area"}
        defaults["thresholds"] = _thresholds(rule.threshold)
        yield {**panel, "gridPos": {"h": 7, "w": 8}}


def _quantile_queries(buckets: str) -> list[tuple[str, str]]:
    parts = ((0.5, "median"), (0.99, "99 %"))
    return [(f"histogram_quantile({part}, {buckets})", name) for part, name in parts]


def _row_panel(title: str) -> DashboardJson:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"h": 1, "w": _GRID_WIDTH},
    }


def _base_panel(
    kind: str, title: str, width: int, height: int, *queries: tuple[str, str]
) -> DashboardJson:
    return {
        "type": kind,
        "title": title,
        "datasource": _DATA_SOURCE_REF,
        "gridPos": {"h": height, "w": width},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATA_SOURCE_REF,
                "expr": query,
                "legendFormat": legend,
                "editorMode": "code",
            }
            for number, (query, legend) in enumerate(queries)
        ],
        "fieldConfig": {"defaults": {"custom": {}}, "overrides": []},
        "options": {},
    }


def _thresholds(red_from: float | None) -> DashboardJson:
    steps: list[DashboardJson] = [{"color": "green", "value": None}]
    return {
        "mode": "absolute",
        "steps": steps if red_from is None else [*steps, {"color": "red", "value": red_from}],
    }


def _stat_panel(
    title: str, query: str, *, unit: str = "short", red_from: float | None = None
) -> DashboardJson:
    panel = _base_panel("stat", title, 6, 4, (query, ""))
    panel["fieldConfig"]["defaults"] |= {
        "unit": unit,
        "decimals": 1 if unit == "percent" else 0,
        "thresholds": _thresholds(red_from),
    }
    panel["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
    }
    return panel


def _line_panel(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    stacked: bool = False,
    colours: dict[str, str] | None = None,
) -> DashboardJson:
    panel = _base_panel("timeseries", title, 12, 8, *queries)
    panel["fieldConfig"] = {
        "defaults": {
            "unit": unit,
            "min": 0,
            "custom": {
                "drawStyle": "line",
                "fillOpacity": 20 if stacked else 0,
                "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            },
        },
        "overrides": [
            {
                "matcher": {"id": "byName", "options": name},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
            for name, colour in (colours or {}).items()
        ],
    }
    panel["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel


def _bar_panel(title: str, query: str, legend: str) -> DashboardJson:
    panel = _base_panel("bargauge", title, 12, 8, (query, legend))
    panel["targets"][0] |= {"instant": True, "range": False}
    panel["fieldConfig"]["defaults"] |= {"unit": "short", "decimals": 0, "min": 0}
    panel["options"] = {
        "orientation": "horizontal",
        "displayMode": "basic",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return panel


def _table_panel(title: str, query: str) -> DashboardJson:
    panel = _base_panel("table", title, _GRID_WIDTH, 6, (query, ""))
    panel["targets"][0] |= {"instant": True, "range": False, "format": "table"}
    panel["options"] = {"showHeader": True}
    return panel


def _place_panels(panels: Iterable[DashboardJson]) -> Iterator[DashboardJson]:
    """Yield the panels with ids and positions, row by row from left to right."""
    x = y = tallest = 0
    for number, panel in enumerate(panels, start=1):
        width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
        if x + width > _GRID_WIDTH:
            x, y, tallest = 0, y + tallest, 0
        yield {**panel, "id": number, "gridPos": {"h": height, "w": width, "x": x, "y": y}}
        x, tallest = x + width, max(tallest, height)
