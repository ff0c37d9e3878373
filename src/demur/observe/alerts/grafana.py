"""A Grafana dashboard over demur's metrics, with a panel for each alert rule.

The data source is a variable, so that the file loads into any Grafana as it is.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from demur.observe.alerts.periods import describe_period
from demur.observe.alerts.prometheus import rule_expression
from demur.observe.alerts.rule import AlertRule, AlertKind

__all__ = ["grafana_dashboard"]

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
    top = f'topk(15, sum by (code) (increase(demur_refusals_total{{surface=~"$surface"}}[{_TIME_RANGE}])))'
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
