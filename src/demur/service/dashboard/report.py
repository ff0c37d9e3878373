"""The page of the report on a period: the tables of `demur audit report`, ready for printing."""

import re
from datetime import timedelta
from typing import Any

from demur.audit.period_report import (
    Cell,
    PeriodReport,
    ReportTable,
    describe_chains,
    describe_period,
)
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import apply_tenant_choice, render_on_thread, render_page
from demur.service.routes.reports import DEFAULT_PERIOD_DAYS, run_report

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_PERIOD_FIELDS = ("since", "until", "tenant")


async def report_page(call: ApiCall) -> ApiAnswer:
    """Return the page: the form alone, or with the report on the period that it names."""
    chosen = apply_tenant_choice(call)
    # An empty field of the form is one that was left out.
    query = {name: value for name, value in chosen.query.items() if value}
    wanted = {name: query[name] for name in _PERIOD_FIELDS if name in query}
    report = None
    if "since" in wanted or "until" in wanted:
        report = await run_report(chosen._replace(query=wanted))
    return await render_on_thread(lambda call: _render_report(call, report))(call)


def _render_report(call: ApiCall, report: PeriodReport | None) -> ApiAnswer:
    now = call.service.clock()
    return render_page(
        call,
        "report.html",
        title="Report" if report is None else describe_period(report),
        section="report",
        report=report is not None,
        heading="" if report is None else describe_period(report),
        chains="" if report is None else describe_chains(report),
        holds=report is None or report.chains_hold is not False,
        tenants=() if report is None else report.tenants,
        tables=() if report is None else [_table_view(table) for table in report.tables],
        since=call.query.get("since") or f"{now - timedelta(days=DEFAULT_PERIOD_DAYS):%Y-%m-%d}",
        until=call.query.get("until") or f"{now + timedelta(days=1):%Y-%m-%d}",
        query={} if report is None else {"since": report.since, "until": report.until},
    )


def _table_view(table: ReportTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "note": table.note,
        "columns": [
            {
                "title": name.replace("_", " "),
                "is_number": all(isinstance(row[at], int) for row in table.rows),
            }
            for at, name in enumerate(table.columns)
        ],
        "rows": [
            [_cell_view(name, cell) for name, cell in zip(table.columns, row, strict=True)]
            for row in table.rows
        ],
    }


def _cell_view(column: str, cell: Cell) -> dict[str, Cell]:
    kind = "text"
    if isinstance(cell, int):
        kind = "number"
    elif column == "decision":
        kind = "decision"
    elif _TIME.fullmatch(cell):
        kind = "time"
    elif cell.startswith("sha256:"):
        kind = "digest"
    # On narrow screens each cell says its column.
    return {"kind": kind, "text": cell, "label": column.replace("_", " ")}
