"""The overview and the pages of reasons: what is refused now, why, and whether it is unusual."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from demur.audit.report import request_subject
from demur.codes.entry import Entry
from demur.codes.meaning import entry_references
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.gate.clock import format_timestamp
from demur.model.decision import Outcome
from demur.observe.alerts.counts import CombinedSource, CountSource, DecisionCounts, StoreSource
from demur.observe.alerts.evaluate import Alert, AlertState, evaluate_rules
from demur.observe.alerts.rules import SelectorField, builtin_rules
from demur.policy.policy import Policy, describe_condition
from demur.service.authentication import LOCAL
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.charts import SparkLine, spark_line, stacked_chart
from demur.service.dashboard.counts import CodeCount, PeriodCounts, count_period
from demur.service.dashboard.decisions import decision_row
from demur.service.dashboard.frame import cached_result, count_to_review, render_page
from demur.service.dashboard.time_range import TimeRange, require_range
from demur.service.problem import invalid_call
from demur.service.record_search import find_newest
from demur.service.sample import SAMPLE_TENANT
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
    """Evaluate the built-in alert rules against the store; firing rules come first.

    Like `demur alerts check`, it leaves sample decisions out unless their tenant is chosen.
    """
    store = service.store
    names = [head.tenant for head in store.list_heads()] if tenant is None else [tenant]
    real = [name for name in names if tenant is not None or name != SAMPLE_TENANT]
    source: CountSource = (
        CombinedSource([StoreSource(store, now, tenant=name) for name in real])
        if len(names) <= _MAX_SINGLE_TENANTS or real != names
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
_REASONS_RANGE = "7d"
# How long counts are cached: those of longer ranges change more slowly.
_SHORT_CACHE_S, _LONG_CACHE_S = 2.0, 30.0
_CACHE_PART = 1 / 60_000
_TOP_REASONS = 10
_FIGURES_CACHE_S = 5.0
# The codes that a decision gets because a guard gave no verdict.
GUARD_FAILURES = (ReasonCode.GUARDRAIL_UNAVAILABLE, ReasonCode.GUARDRAIL_PARTIAL)


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True):
    """A code with its counts, as a row. `bar` is a percentage of the largest count."""

    code: str
    title: str
    refusal_class: str
    severity: str
    known: bool
    deprecated: bool
    replacement: str | None
    references: list[str]
    counts: CodeCount
    spark: SparkLine
    bar: float
    loud: bool


def overview_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    service, tenant, now = call.service, call.chosen_tenant(), call.service.clock()
    time_range = require_range(call.query, now)
    watched = period_counts(call, time_range)
    newest = RecordFilter(tenant=tenant)
    latest = list(service.store.find_records(newest, newest_first=True, limit=_LATEST_COUNT))
    registry = service.gate.registry
    return render_page(
        call,
        "overview.html",
        title="Overview",
        section="overview",
        time_range=time_range,
        watched=watched,
        chart_data=stacked_chart(
            watched.buckets, {one.outcome: one.series for one in watched.outcomes}
        ),
        sparks=[spark_line(one.series) for one in watched.outcomes],
        total_spark=spark_line(watched.series),
        reasons=reason_rows(watched.codes[:_TOP_REASONS], registry),
        waits=_count_waiting(call, now),
        running=_read_running(call, watched),
        try_it=describe_first_call(call) if not latest else "",
        latest=[decision_row(record, with_tenant=tenant is None) for record in latest],
        alerts=cached_result(
            service, ("alerts", tenant), _ALERT_CACHE_S, lambda: list_alerts(service, tenant, now)
        ),
        loud=[one for one in reason_rows(watched.codes, registry) if one.loud],
        loud_percent=LOUD_PERCENT,
    )


class WaitingCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases wait for a person, and the page where they are."""

    label: str
    count: int
    path: str


def _count_waiting(call: ApiCall, now: datetime) -> list[WaitingCount]:
    """Return what waits for a person."""
    service, tenant = call.service, call.chosen_tenant()
    return [
        WaitingCount(
            label="to approve",
            count=service.store.count_waiting(tenant, now=format_timestamp(now)),
            path="/approvals",
        ),
        WaitingCount(label="to review", count=count_to_review(call), path="/review"),
    ]


class RunningFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs. `calls` and times are None for a key of one tenant."""

    no_verdict: int
    not_judged: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    calls: int | None = None
    client_errors: int = 0
    server_errors: int = 0
    since: str = ""


def _read_running(call: ApiCall, watched: PeriodCounts) -> RunningFigures:
    """Return how the service runs; what a process counted belongs to all tenants."""
    service = call.service
    no_verdict = sum(watched.code_counts(code).count for code in GUARD_FAILURES)
    not_judged = sum(
        one.count for one in watched.outcomes if one.outcome == Outcome.COULD_NOT_JUDGE
    )
    metrics = service.metrics
    if metrics is None or call.caller.tenant is not None:
        return RunningFigures(no_verdict=no_verdict, not_judged=not_judged)
    figures = cached_result(service, "figures", _FIGURES_CACHE_S, metrics.read_figures)
    return RunningFigures(
        no_verdict=no_verdict,
        not_judged=not_judged,
        p50_ms=_to_milliseconds(figures.p50_s),
        p95_ms=_to_milliseconds(figures.p95_s),
        calls=figures.calls,
        client_errors=figures.client_errors,
        server_errors=figures.server_errors,
        since=service.started_at,
    )


def _to_milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{1000 * seconds:.3g}")


def describe_first_call(call: ApiCall) -> str:
    """Return a command that makes a first decision, at the address that the reader used."""
    host, scheme = call.headers.get("host", ""), "https" if call.origin.is_secure else "http"
    key = "" if call.caller == LOCAL else ' -H "authorization: Bearer $DEMUR_KEY"'
    body = '{"request": {"action": {"type": "refund"}}}'
    return (
        f"curl -s {scheme}://{host}/v1/decide{key} -H 'content-type: application/json' \\\n"
        f"  -d '{body}'"
    )


def period_counts(call: ApiCall, period: TimeRange) -> PeriodCounts:
    """Return the counts of a range, cached for a few seconds."""
    service, tenant = call.service, call.chosen_tenant()
    return cached_result(
        service,
        ("watched", tenant, period),
        min(_LONG_CACHE_S, max(_SHORT_CACHE_S, period.span_s * _CACHE_PART)),
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
                references=[] if entry is None else [one.id for one in entry_references(entry)],
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
    time_range = require_range(call.query, service.clock(), _REASONS_RANGE)
    watched = period_counts(call, time_range)
    rows = reason_rows(watched.codes, service.gate.registry)
    return render_page(
        call,
        "reasons.html",
        title="Reasons",
        section="reasons",
        time_range=time_range,
        watched=watched,
        rows=rows,
        old=[row for row in rows if row.deprecated or not row.known],
        loud_percent=LOUD_PERCENT,
    )


def reason_page(call: ApiCall) -> ApiAnswer:
    """Return the page of one code."""
    service, code = call.service, call.path["code"]
    registry, tenant, now = service.gate.registry, call.chosen_tenant(), service.clock()
    time_range = require_range(call.query, now, _REASONS_RANGE)
    entry = registry.get(code)
    watched = period_counts(call, time_range)
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
        time_range=time_range,
        code=code,
        entry=entry and entry.as_json(),
        children=[child.code for child in registry.children(code)],
        references=_list_references(entry),
        splits=cached_result(
            service,
            ("splits", tenant, code, time_range),
            _LONG_CACHE_S,
            lambda: _split_reason(service, tenant, code, time_range, now),
        ),
        watched=watched,
        counts=counts,
        chart_data=stacked_chart(watched.buckets, {"code": counts.series}, height=132),
        rules=_rules_giving(service.gate.policy, code),
        rows=[decision_row(record, with_tenant=tenant is None) for record in examples],
        loud=counts.percent > LOUD_PERCENT,
        loud_percent=LOUD_PERCENT,
    )


def _list_references(entry: Entry | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the public taxonomies that an entry refers to, each with ids and their titles."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in entry_references(entry) if entry is not None else ():
        found.setdefault(one.taxonomy, []).append((one.id, one.title))
    return list(found.items())


class ReasonShare(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, action or tenant with a reason; `query` leads to those decisions."""

    name: str
    count: int
    percent: float
    query: dict[str, str]


class ReasonSplit(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions with a reason by subject, by action or by tenant, most first."""

    title: str
    shares: list[ReasonShare]
    others: int


class ReasonSplits(msgspec.Struct, frozen=True, kw_only=True):
    """The splits of the newest decisions with a reason; `read` is their number."""

    read: int
    splits: list[ReasonSplit]


# Tallies know no subjects and no actions, so the newest records are read.
_MAX_SPLIT, _MAX_SHARES = 300, 6


def _split_reason(
    service: Service, tenant: str | None, code: str, time_range: TimeRange, now: datetime
) -> ReasonSplits:
    query = RecordFilter(
        tenant=tenant, reason_code=code, since=time_range.since, until=time_range.until
    )
    records = find_newest(service.store, query, now, _MAX_SPLIT)
    kinds: list[tuple[str, str, Callable[[Any], str]]] = [
        ("By subject", "subject", request_subject),
        ("By action", "action", lambda record: record.action_type),
    ]
    if tenant is None:
        kinds.append(("By tenant", "tenant", lambda record: record.tenant))
    splits = [_count_shares(title, name, list(map(read, records))) for title, name, read in kinds]
    return ReasonSplits(read=len(records), splits=splits)


def _count_shares(title: str, parameter: str, names: Sequence[str]) -> ReasonSplit:
    counts = Counter(filter(None, names))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shares = [
        ReasonShare(
            name=name, count=count, percent=100 * count / len(names), query={parameter: name}
        )
        for name, count in ordered[:_MAX_SHARES]
    ]
    return ReasonSplit(title=title, shares=shares, others=len(ordered) - len(shares))


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
