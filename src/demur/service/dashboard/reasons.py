"""Reasons: how often each code was given, and all there is to know about one of them."""

import msgspec

from demur.codes.entry import Entry
from demur.policy.policy import Policy
from demur.policy.words import in_words
from demur.service.call import Answer, Call
from demur.service.dashboard.charts import stacked
from demur.service.dashboard.frame import page
from demur.service.dashboard.overview import LOUD_PERCENT, reason_rows, seen
from demur.service.dashboard.periods import PERIODS, WEEK, period_named
from demur.service.dashboard.rows import row_of
from demur.service.finding_pages import newest
from demur.service.problem import invalid
from demur.store.backend import Filter

__all__ = ["RuleRow", "reason", "reasons"]

_EXAMPLES = 8


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the current policy that gives a code."""

    rule_id: str
    stage: str
    verdict: str
    words: str
    shadow: bool


def reasons(call: Call) -> Answer:
    """Return the page of all reasons in a period."""
    service = call.service
    period = period_named(call.query.get("period") or WEEK.name)
    watched = seen(call, period)
    rows = reason_rows(watched.codes, service.gate.registry)
    return page(
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


def reason(call: Call) -> Answer:
    """Return the page of one code."""
    service, code = call.service, call.path["code"]
    registry, tenant, now = service.gate.registry, call.tenant(), service.clock()
    period = period_named(call.query.get("period") or WEEK.name)
    entry = registry.get(code)
    watched = seen(call, period)
    counts = watched.code(code)
    examples = newest(service.store, Filter(tenant=tenant, reason_code=code), now, _EXAMPLES)
    if entry is None and not counts.count and not examples:
        raise invalid(404, "there is no such code, and no decision gives it")
    return page(
        call,
        "reason.html",
        title=code,
        section="reasons",
        periods=list(PERIODS.values()),
        code=code,
        entry=entry and _entry(entry),
        children=[child.code for child in registry.children(code)],
        watched=watched,
        counts=counts,
        chart_data=stacked(watched.buckets, {"code": counts.series}, height=132),
        rules=_rules(service.gate.policy, code),
        rows=[row_of(record, with_tenant=tenant is None) for record in examples],
        loud=counts.percent > LOUD_PERCENT,
        loud_percent=LOUD_PERCENT,
    )


def _entry(entry: Entry) -> dict[str, object]:
    return entry.as_json()


def _rules(policy: Policy, code: str) -> list[RuleRow]:
    return [
        RuleRow(
            rule_id=rule.id,
            stage=rule.stage,
            verdict=rule.then.verdict,
            words=in_words(rule.condition),
            shadow=rule.shadow,
        )
        for rule in policy.rules
        if code in rule.then.reason_codes
    ]
