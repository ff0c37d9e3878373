"""What guards did, over HTTP: from the store, and from the process that answers."""

from datetime import timedelta

import msgspec

from demur.gate.monitor import (
    GuardReport,
    GuardThresholds,
    build_guard_report,
    count_findings,
)
from demur.service.authentication import Role
from demur.service.calls import TENANT_PARAMETER, ApiCall, RouteTable, number_parameter
from demur.service.service import Service

GUARD_ROUTES = RouteTable()
_WEEK, _MAX_DAYS = 7, 366


class GuardActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What guards did in the last days.

    `stored` counts the findings of stored decisions; the store does not know runs and durations,
    and names guards by their surface. `process` counts everything since the process that answers
    started, of all tenants; null for a key of one tenant. `workers` is the number of processes.
    """

    stored: GuardReport
    process: GuardReport | None
    workers: int


@GUARD_ROUTES.add_sync(
    "GET /v1/guards",
    "guard report",
    Role.READ,
    gives=GuardActivity,
    query=(number_parameter("days", "How many days back.", _MAX_DAYS), TENANT_PARAMETER),
)
def report_guards(call: ApiCall) -> GuardActivity:
    """Report what guards found, cost and failed."""
    days = call.read_number("days", _WEEK, maximum=_MAX_DAYS)
    service = call.service
    return GuardActivity(
        stored=report_stored_findings(service, call.chosen_tenant(), days),
        process=service.monitor.report(days) if call.caller.tenant is None else None,
        workers=service.settings.workers,
    )


def report_stored_findings(service: Service, tenant: str | None, days: float) -> GuardReport:
    """Return the report on the findings of stored decisions."""
    now = service.clock()
    # The days before are for the trend.
    since, until = now - timedelta(days=2 * days), now + timedelta(microseconds=1)
    tallies = service.store.read_tallies(tenant, since, until)
    hours = count_findings(tallies.findings)
    return build_guard_report(hours, now=now, days=days, thresholds=GuardThresholds())
