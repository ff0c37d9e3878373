"""The page of guards: what each found, what it cost, how often it failed, and what is in shadow."""

from datetime import timedelta
from typing import Any

import msgspec

from demur.gate.monitor import GuardReport, GuardSummary
from demur.model.finding import Action
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.counts import SurfaceCount
from demur.service.dashboard.frame import cached_result, render_page
from demur.service.dashboard.overview import GUARD_FAILURES, period_counts
from demur.service.dashboard.time_range import require_range
from demur.service.routes.guards import report_stored_findings

_CACHE_S = 10.0
_DAY = timedelta(days=1)
_MIN_DAYS = 1 / 24


class SurfaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a surface. `codes` are the most frequent ones."""

    surface: str
    findings: int
    percent: float
    blocked: int
    escalated: int
    warned: int
    codes: list[tuple[str, int]]


def guards_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    service, tenant, now = call.service, call.chosen_tenant(), call.service.clock()
    time_range = require_range(call.query, now)
    watched = period_counts(call, time_range)
    # Warnings and times are of a span that ends now.
    days = max((now - time_range.start) / _DAY, _MIN_DAYS)
    stored = cached_result(
        service,
        ("guards", tenant, time_range.start),
        _CACHE_S,
        lambda: report_stored_findings(service, tenant, days),
    )
    # What a process counted belongs to all tenants.
    live = service.monitor.report(days) if call.caller.tenant is None else None
    return render_page(
        call,
        "guards.html",
        title="Guards",
        section="guards",
        time_range=time_range,
        surfaces=[_surface_row(one) for one in watched.surfaces],
        failures=[counts for code in GUARD_FAILURES if (counts := watched.code_counts(code)).count],
        live=live,
        guards=[] if live is None else _order_guards(live),
        warnings=_merge_warnings(stored, live),
        workers=service.settings.workers,
        started_at=service.started_at,
    )


def _surface_row(counts: SurfaceCount) -> SurfaceRow:
    actions = counts.actions
    return SurfaceRow(
        surface=counts.surface,
        findings=counts.count,
        percent=counts.percent,
        blocked=actions.get(Action.BLOCK, 0),
        escalated=actions.get(Action.ESCALATE, 0),
        warned=actions.get(Action.WARN, 0),
        codes=counts.codes,
    )


def _order_guards(report: GuardReport) -> list[GuardSummary]:
    """Return the guards that did something, those that failed first, then the busiest."""
    return sorted(report.guards, key=lambda one: (-one.failures, -one.runs, one.surface, one.guard))


def _merge_warnings(stored: GuardReport, live: GuardReport | None) -> list[dict[str, Any]]:
    """Return the warnings of both reports; those of the process know more of the same guard."""
    own = () if live is None else live.warnings
    known = {(one.kind, one.surface) for one in own}
    return [
        msgspec.structs.asdict(one)
        for one in (*own, *(one for one in stored.warnings if (one.kind, one.surface) not in known))
    ]
