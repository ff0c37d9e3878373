"""The overview and the pages of reasons: what is refused now, why, and whether it is unusual."""

from datetime import datetime
from typing import Any

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.observe.alerts.counts import CombinedSource, CountSource, DecisionCounts, StoreSource
from demur.observe.alerts.evaluate import Alert, AlertState, evaluate_rules
from demur.observe.alerts.rules import SelectorField, builtin_rules
from demur.policy.policy import Policy, describe_condition
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.charts import SparkLine, spark_line, stacked_chart
from demur.service.dashboard.counts import (
    PERIODS,
    WEEK,
    WEEK_UNCOMPARED,
    CodeCount,
    LookbackPeriod,
    PeriodCounts,
    count_period,
    find_period,
)
from demur.service.dashboard.decisions import decision_row
from demur.service.dashboard.frame import cached_result, render_page
from demur.service.problem import invalid_call
from demur.service.record_search import find_newest
from demur.service.service import Service
from demur.store.backend import RecordFilter

_MAX_SINGLE_TENANTS = 8
_STATE_ORDER = {AlertState.FIRING: 0, AlertState.UNJUDGED: 1, AlertState.QUIET: 2}


class _CachedSource:
    """A source that caches counts, because several rules need the same ones."""

    def __init__(self, source: CountSource) -> None:
        self._source = source
        self._counts: dict[tuple[datetime, datetime], DecisionCounts] = {}

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        key = (since, until)
        if key not in self._counts:
            self._counts[key] = self._source.count_between(since, until)
        return self._counts[key]


def list_alerts(service: Service, tenant: str | None, now: datetime) -> list[dict[str, Any]]:
    """Evaluate the built-in alert rules against the store; firing rules come first."""
    store = service.store
    names = [head.tenant for head in store.list_heads()] if tenant is None else [tenant]
    source: CountSource = (
        CombinedSource([StoreSource(store, now, tenant=name) for name in names])
        if len(names) <= _MAX_SINGLE_TENANTS
        else StoreSource(store, now, tenant=tenant)
    )
    alerts = evaluate_rules(
        builtin_rules().rules, _CachedSource(source), now, service.gate.registry
    )
    return [_alert_row(alert) for alert in sorted(alerts, key=lambda one: _STATE_ORDER[one.state])]


def _alert_row(alert: Alert) -> dict[str, Any]:
    """Return an alert for the page; `code` is the reason that it watches."""
    rule, selector = alert.rule, alert.rule.selector
    watches_code = selector is not None and selector.field is SelectorField.CODE
    return {
        "rule_id": rule.id,
        "state": alert.state,
        "severity": rule.severity,
        "message": alert.message,
        "description": rule.description,
        "runbook": rule.runbook,
        "code": selector.value if selector is not None and watches_code else None,
    }


# The page warns of a code in more than this share of all decisions.
LOUD_PERCENT = 10.0
_LATEST_COUNT = 12
_ALERT_CACHE_S = 20.0
# How long counts are cached: longer periods change more slowly.
_PERIOD_CACHE_S = {"24h": 2.0, "7d": 10.0, "7d alone": 10.0, "30d": 30.0}
_TOP_REASONS = 8
_TREND_COUNT = 6


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True):
    """A code with its counts, as a row. `bar` is a percentage of the largest count."""

    code: str
    title: str
    refusal_class: str
    severity: str
    known: bool
    deprecated: bool
    replacement: str | None
    counts: CodeCount
    spark: SparkLine
    bar: float
    loud: bool


def overview_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    service, tenant, now = call.service, call.chosen_tenant(), call.service.clock()
    period = find_period(call.query.get("period"))
    watched = period_counts(call, period)
    week = watched if period is WEEK else period_counts(call, WEEK_UNCOMPARED)
    latest = service.store.find_records(
        RecordFilter(tenant=tenant), newest_first=True, limit=_LATEST_COUNT
    )
    registry = service.gate.registry
    most = max((max(one.series) for one in watched.codes[:_TREND_COUNT]), default=0)
    return render_page(
        call,
        "overview.html",
        title="Overview",
        section="overview",
        periods=list(PERIODS.values()),
        watched=watched,
        chart_data=stacked_chart(
            watched.buckets, {one.outcome: one.series for one in watched.outcomes}
        ),
        sparks=[spark_line(one.series) for one in watched.outcomes],
        total_spark=spark_line(watched.series),
        reasons=reason_rows(watched.codes[:_TOP_REASONS], registry),
        trends=reason_rows(watched.codes[:_TREND_COUNT], registry, top=most),
        most=most,
        denials=reason_rows(week.denied_codes()[:_TOP_REASONS], registry),
        denied=week.verdicts.get(Verdict.DENY, 0),
        latest=[decision_row(record, with_tenant=tenant is None) for record in latest],
        alerts=cached_result(
            service, ("alerts", tenant), _ALERT_CACHE_S, lambda: list_alerts(service, tenant, now)
        ),
        loud=[one for one in reason_rows(watched.codes, registry) if one.loud],
        loud_percent=LOUD_PERCENT,
    )


def period_counts(call: ApiCall, period: LookbackPeriod) -> PeriodCounts:
    """Return the counts of a period, cached for a few seconds."""
    service, tenant = call.service, call.chosen_tenant()
    return cached_result(
        service,
        ("watched", tenant, period.name),
        _PERIOD_CACHE_S[period.name],
        lambda: count_period(service.store, tenant, service.clock(), period),
    )


def reason_rows(
    codes: list[CodeCount], registry: Registry, *, top: int | None = None
) -> list[ReasonRow]:
    """Return counts of codes with their registry entries."""
    rows = []
    largest = max((counts.count for counts in codes), default=1)
    for counts in codes:
        entry = registry.get(counts.code)
        refuses = entry is None or entry.effect == "refuse"
        rows.append(
            ReasonRow(
                code=counts.code,
                title="Not in the registry" if entry is None else entry.title,
                refusal_class="" if entry is None else entry.refusal_class or "",
                severity="" if entry is None else entry.severity,
                known=entry is not None,
                deprecated=entry is not None and entry.deprecated,
                replacement=None if entry is None else entry.replacement,
                counts=counts,
                spark=spark_line(counts.series, top),
                bar=100 * counts.count / largest,
                loud=refuses and counts.percent > LOUD_PERCENT,
            )
        )
    return rows


_EXAMPLE_COUNT = 8


def reasons_page(call: ApiCall) -> ApiAnswer:
    """Return the page of all reasons in a period."""
    service = call.service
    period = find_period(call.query.get("period") or WEEK.name)
    watched = period_counts(call, period)
    rows = reason_rows(watched.codes, service.gate.registry)
    return render_page(
        call,
        "reasons.html",
        title="Reasons",
        section="reasons",
        periods=list(PERIODS.values()),
        watched=watched,
        rows=rows,
        old=[row for row in rows if row.deprecated or not row.known],
        loud_percent=LOUD_PERCENT,
    )


def reason_page(call: ApiCall) -> ApiAnswer:
    """Return the page of one code."""
    service, code = call.service, call.path["code"]
    registry, tenant, now = service.gate.registry, call.chosen_tenant(), service.clock()
    period = find_period(call.query.get("period") or WEEK.name)
    entry = registry.get(code)
    watched = period_counts(call, period)
    counts = watched.code_counts(code)
    examples = find_newest(
        service.store, RecordFilter(tenant=tenant, reason_code=code), now, _EXAMPLE_COUNT
    )
    if entry is None and not counts.count and not examples:
        raise invalid_call(404, "there is no such code, and no decision gives it")
    return render_page(
        call,
        "reason.html",
        title=code,
        section="reasons",
        periods=list(PERIODS.values()),
        code=code,
        entry=entry and entry.as_json(),
        children=[child.code for child in registry.children(code)],
        watched=watched,
        counts=counts,
        chart_data=stacked_chart(watched.buckets, {"code": counts.series}, height=132),
        rules=_rules_giving(service.gate.policy, code),
        rows=[decision_row(record, with_tenant=tenant is None) for record in examples],
        loud=counts.percent > LOUD_PERCENT,
        loud_percent=LOUD_PERCENT,
    )


def _rules_giving(policy: Policy, code: str) -> list[dict[str, Any]]:
    """Return the rules of the current policy that give a code."""
    return [
        {
            "rule_id": rule.id,
            "stage": rule.stage,
            "verdict": rule.then.verdict,
            "words": describe_condition(rule.condition),
            "shadow": rule.shadow,
        }
        for rule in policy.rules
        if code in rule.then.reason_codes
    ]
