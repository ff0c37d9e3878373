"""The overview: what is being refused now, why, and whether that is unusual."""

import msgspec

from demur.codes.registry import Registry
from demur.model.record import DecisionRecord
from demur.service.call import Answer, Call
from demur.service.dashboard.alert_state import alerts_of
from demur.service.dashboard.charts import Chart, Spark, spark, stacked
from demur.service.dashboard.frame import page
from demur.service.dashboard.periods import PERIODS, WEEK, WEEK_ALONE, Period, period_named
from demur.service.dashboard.recent import recent
from demur.service.dashboard.rows import Row, row_of
from demur.service.dashboard.watched import CodeCount, Watched, watch
from demur.store.backend import Filter

__all__ = ["LOUD_PERCENT", "ReasonRow", "overview", "reason_rows", "seen", "verdict_chart"]

# The page warns of a code in more than this share of all decisions.
LOUD_PERCENT = 10.0
_LATEST = 12
_ALERTS_S = 20.0
# How long counts are cached: longer periods change more slowly.
_SECONDS = {"24h": 2.0, "7d": 10.0, "7d alone": 10.0, "30d": 30.0}
_TOP = 8
_TRENDS = 6


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
    spark: Spark
    bar: float
    loud: bool


def overview(call: Call) -> Answer:
    """Return the page."""
    service, tenant, now = call.service, call.tenant(), call.service.clock()
    period = period_named(call.query.get("period"))
    watched = seen(call, period)
    week = watched if period is WEEK else seen(call, WEEK_ALONE)
    latest: list[DecisionRecord] = list(
        service.store.find(Filter(tenant=tenant), newest_first=True, limit=_LATEST)
    )
    registry = service.gate.registry
    most = max((max(one.series) for one in watched.codes[:_TRENDS]), default=0)
    return page(
        call,
        "overview.html",
        title="Overview",
        section="overview",
        periods=list(PERIODS.values()),
        watched=watched,
        chart_data=verdict_chart(watched),
        sparks=[spark(one.series) for one in watched.verdicts],
        total_spark=spark(watched.series),
        reasons=reason_rows(watched.codes[:_TOP], registry),
        trends=reason_rows(watched.codes[:_TRENDS], registry, top=most),
        most=most,
        denials=reason_rows(week.denials()[:_TOP], registry),
        denied=next(one.count for one in week.verdicts if one.verdict == "DENY"),
        latest=[_row(record, tenant) for record in latest],
        alerts=recent(
            service, ("alerts", tenant), _ALERTS_S, lambda: alerts_of(service, tenant, now)
        ),
        loud=[one for one in reason_rows(watched.codes, registry) if one.loud],
        loud_percent=LOUD_PERCENT,
    )


def seen(call: Call, period: Period) -> Watched:
    """Return the counts of a period, cached for a few seconds."""
    service, tenant = call.service, call.tenant()
    return recent(
        service,
        ("watched", tenant, period.name),
        _SECONDS[period.name],
        lambda: watch(service.store, tenant, service.clock(), period),
    )


def _row(record: DecisionRecord, tenant: str | None) -> Row:
    return row_of(record, with_tenant=tenant is None)


def verdict_chart(watched: Watched) -> Chart:
    """Return the decisions over time, by verdict."""
    return stacked(watched.buckets, {one.verdict: one.series for one in watched.verdicts})


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
                spark=spark(counts.series, top),
                bar=100 * counts.count / largest,
                loud=refuses and counts.percent > LOUD_PERCENT,
            )
        )
    return rows
