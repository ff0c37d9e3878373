"""The report on a period over HTTP: as JSON, and as CSV for a spreadsheet."""

from datetime import timedelta
from typing import Any

import msgspec

from demur.audit.period_report import PeriodReport, report_csv, report_to_json
from demur.gate.clock import format_timestamp
from demur.service.authentication import Role
from demur.service.calls import (
    TENANT_PARAMETER,
    ApiAnswer,
    ApiCall,
    QueryField,
    RouteTable,
    json_answer,
)
from demur.service.heavy_work import report_period
from demur.service.problem import invalid_call
from demur.service.routes.decisions import filter_from_query

REPORT_ROUTES = RouteTable()
DEFAULT_PERIOD_DAYS = 30
_PARAMETERS = (
    QueryField("since", "The beginning of the period; by default 30 days before its end."),
    QueryField("until", "Its end, which does not belong to it; by default now."),
    TENANT_PARAMETER,
)


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of a period: `tables` holds the rows of each by its name.

    `chains_hold` says whether the chains are intact; it is null where they are too long to be
    verified during a call. `notes` say what the rows of a table are.
    """

    schema_version: str
    demur_version: str
    tenants: list[str]
    since: str
    until: str
    chains_hold: bool | None
    tables: dict[str, list[dict[str, Any]]]
    notes: dict[str, str]


async def run_report(call: ApiCall) -> PeriodReport:
    """Return the report on the period that the query names.

    Raises:
        ProblemError: The period is none, or the tenant is another one.
        InputError: The period holds too many decisions.
    """
    service, query = call.service, filter_from_query(call)
    service.require_store()
    now = service.clock()
    until = query.until or format_timestamp(now)
    since = query.since or format_timestamp(now - timedelta(days=DEFAULT_PERIOD_DAYS))
    if since >= until:
        raise invalid_call(422, "`since` is not before `until`", "since", "swap them")
    pool = service.heavy_pool
    run = call.run_heavy if pool.reads_store else call.run_blocking
    report: PeriodReport = await run(pool.call, report_period, query.tenant, since, until)
    return report


@REPORT_ROUTES.add(
    "GET /v1/report", "report period", Role.READ, gives=ReportDocument, query=_PARAMETERS
)
async def report_as_json(call: ApiCall) -> ApiAnswer:
    """Report on a period: decisions, refusals, approvals, overrides, erasures, chains."""
    return json_answer(report_to_json(await run_report(call)))


@REPORT_ROUTES.add(
    "GET /v1/report.csv",
    "report period as csv",
    Role.READ,
    gives={"type": "string"},
    query=_PARAMETERS,
    media_type="text/csv",
)
async def report_as_csv(call: ApiCall) -> ApiAnswer:
    """Report on a period as CSV, in which no cell is a formula."""
    report = await run_report(call)
    name = f"demur-{report.since[:10]}-{report.until[:10]}.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return ApiAnswer(report_csv(report).encode("utf-8", "replace"), 200, "text/csv", headers)
