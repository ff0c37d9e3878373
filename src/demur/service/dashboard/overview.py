"""The overview: what is being refused now, why, and whether that is unusual."""

import msgspec

from demur.codes.registry import Registry
from demur.model.record import DecisionRecord
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.alert_state import list_alerts
from demur.service.dashboard.charts import Chart, SparkLine, spark_line, stacked_chart
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.periods import (
    PERIODS,
    WEEK,
    WEEK_UNCOMPARED,
    LookbackPeriod,
    find_period,
)
from demur.service.dashboard.recent import cached_result
from demur.service.dashboard.rows import DecisionRow, decision_row
from demur.service.dashboard.watched import CodeCount, PeriodCounts, count_period
from demur.store.backend import RecordFilter

__all__ = [
    "LOUD_PERCENT",
    "ReasonRow",
    "overview_page",
    "reason_rows",
    "period_counts",
    "verdict_chart",
]

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
    latest: list[DecisionRecord] = list(
        service.store.find_records(
            RecordFilter(tenant=tenant), newest_first=True, limit=_LATEST_COUNT
        )
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
        chart_data=verdict_chart(watched),
        sparks=[spark_line(one.series) for one in watched.verdicts],
        total_spark=spark_line(watched.series),
        reasons=reason_rows(watched.codes[:_TOP_REASONS], registry),
        trends=reason_rows(watched.codes[:_TREND_COUNT], registry, top=most),
        most=most,
        denials=reason_rows(week.denied_codes()[:_TOP_REASONS], registry),
        denied=next(one.count for one in week.verdicts if one.verdict == "DENY"),
        latest=[_latest_row(record, tenant) for record in latest],
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


def _latest_row(record: DecisionRecord, tenant: str | None) -> DecisionRow:
    return decision_row(record, with_tenant=tenant is None)


def verdict_chart(watched: PeriodCounts) -> Chart:
    """Return the decisions over time, by verdict."""
    return stacked_chart(watched.buckets, {one.verdict: one.series for one in watched.verdicts})


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
