"""Reasons: how often each code was given, and all there is to know about one of them."""

import msgspec

from demur.codes.entry import Entry
from demur.policy.policy import Policy
from demur.policy.words import describe_condition
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.charts import stacked_chart
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.overview import LOUD_PERCENT, reason_rows, period_counts
from demur.service.dashboard.periods import PERIODS, WEEK, find_period
from demur.service.dashboard.rows import decision_row
from demur.service.finding_pages import find_newest
from demur.service.problem import invalid_request
from demur.store.backend import RecordFilter

__all__ = ["RuleRow", "reason_page", "reasons_page"]

_EXAMPLE_COUNT = 8


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the current policy that gives a code."""

    rule_id: str
    stage: str
    verdict: str
    words: str
    shadow: bool


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
        raise invalid_request(404, "there is no such code, and no decision gives it")
    return render_page(
        call,
        "reason.html",
        title=code,
        section="reasons",
        periods=list(PERIODS.values()),
        code=code,
        entry=entry and _entry_json(entry),
        children=[child.code for child in registry.children(code)],
        watched=watched,
        counts=counts,
        chart_data=stacked_chart(watched.buckets, {"code": counts.series}, height=132),
        rules=_rules_giving(service.gate.policy, code),
        rows=[decision_row(record, with_tenant=tenant is None) for record in examples],
        loud=counts.percent > LOUD_PERCENT,
        loud_percent=LOUD_PERCENT,
    )


def _entry_json(entry: Entry) -> dict[str, object]:
    return entry.as_json()


def _rules_giving(policy: Policy, code: str) -> list[RuleRow]:
    return [
        RuleRow(
            rule_id=rule.id,
            stage=rule.stage,
            verdict=rule.then.verdict,
            words=describe_condition(rule.condition),
            shadow=rule.shadow,
        )
        for rule in policy.rules
        if code in rule.then.reason_codes
    ]
