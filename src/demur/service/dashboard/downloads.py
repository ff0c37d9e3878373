"""Lists as files: the same decisions, approvals, reasons and so on as on the pages, all of them.

A file is written row by row in bounded memory. Cells of a CSV file that a spreadsheet would take
for a formula begin with an apostrophe.
"""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from demur.audit.report import request_intent
from demur.codes.markup import escape_cell
from demur.gate.approvals import shown_state
from demur.gate.clock import format_timestamp
from demur.gate.grants import list_grant_views
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.approvals import find_requests
from demur.service.dashboard.decision_query import drop_unknown, read_decision_query
from demur.service.dashboard.decisions import decision_row
from demur.service.dashboard.frame import apply_tenant_choice
from demur.service.dashboard.overview import period_counts, reason_rows
from demur.service.dashboard.time_range import read_range, require_range
from demur.service.json_body import encode_json
from demur.service.problem import forbidden, invalid_call
from demur.service.record_search import record_view
from demur.service.routes.people import PersonView, person_view
from demur.store.rows import REVIEW

_FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
_ROWS_AT_ONCE = 200
_MAX_GRANTS = 10_000

Row = Mapping[str, Any]


def to_csv_cell(value: Any) -> str:
    """Return a value as the text of a cell that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return escape_cell(str(value).replace("\0", ""))


def write_csv(rows: Iterable[Row], names: tuple[str, ...]) -> Iterator[bytes]:
    """Yield a CSV file in parts."""
    yield _csv_lines([names])
    listed = iter(rows)
    while batch := list(islice(listed, _ROWS_AT_ONCE)):
        yield _csv_lines([[to_csv_cell(row.get(name)) for name in names] for row in batch])


def _csv_lines(lines: Iterable[Iterable[str]]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows(lines)
    return file.getvalue().encode("utf-8", "replace")


def write_json(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield a JSON array in parts, one row a line."""
    opening = b"["
    listed = iter(rows)
    while batch := list(islice(listed, _ROWS_AT_ONCE)):
        yield b",".join(
            (opening if not place else b"") + b"\n" + encode_json(row)
            for place, row in enumerate(batch)
        )
        opening = b","
    yield b"[]\n" if opening == b"[" else b"\n]\n"


_DECISION_COLUMNS = (
    *("decision_id", "created_at", "tenant", "outcome", "verdict", "output", "refusal_class"),
    *("reason_codes", "action", "amount", "currency", "subject", "request_id", "enforced"),
    *("intent", "summary"),
)
_REASON_COLUMNS = (
    *("code", "title", "refusal_class", "severity", "count", "before", "percent"),
    *("deny", "escalate", "abstain", "allow", "known", "deprecated"),
)
_LABEL_COLUMNS = ("decision_id", "tenant", "created_at", "value", "note", "by")
_GRANT_COLUMNS = (
    *("grant_id", "tenant", "state", "kind", "granted_by", "granted_to", "expires_at"),
    *("decision_id", "used", "revoked_at"),
)
_APPROVAL_COLUMNS = (
    *("decision_id", "tenant", "state", "action", "amount", "currency", "subject", "intent"),
    *("reason_codes", "given", "needed", "group", "requested_at", "expires_at", "closed_at"),
    *("closed_by", "note", "resolution_id"),
)
_PERSON_COLUMNS = PersonView.__struct_fields__


def _decision_columns(record: DecisionRecord) -> Row:
    row, amount = decision_row(record), record.amount
    return {
        "decision_id": row.decision_id,
        "created_at": row.created_at,
        "tenant": record.tenant,
        "outcome": row.outcome,
        "verdict": row.verdict,
        "output": row.output,
        "refusal_class": row.refusal_class,
        "reason_codes": row.codes,
        "action": row.action,
        "amount": None if amount is None else amount.value,
        "currency": None if amount is None else amount.currency,
        "subject": row.who,
        "request_id": record.request_id,
        "enforced": row.enforced,
        "intent": request_intent(record),
        "summary": record.explanation.summary,
    }


def _find_decisions(call: ApiCall) -> Iterator[DecisionRecord]:
    # A page says what it leaves out; a file cannot, and would hold all decisions.
    _, problem = drop_unknown(call)
    if problem:
        raise invalid_call(422, problem)
    wanted = read_decision_query(call)
    newest_first = wanted.sort != "oldest"
    return call.service.store.find_records(wanted.record_filter, newest_first=newest_first)


def _list_reasons(call: ApiCall) -> list[Row]:
    time_range = require_range(call.query, call.service.clock(), "7d")
    counted = reason_rows(period_counts(call, time_range).codes, call.service.gate.registry)
    return [
        {
            **{name: getattr(row, name) for name in _REASON_COLUMNS[:4]},
            "count": row.counts.count,
            "before": row.counts.before,
            "percent": round(row.counts.percent, 2),
            **{
                verdict.lower(): row.counts.verdicts.get(verdict, 0)
                for verdict in ("DENY", "ESCALATE", "ABSTAIN", "ALLOW")
            },
            "known": row.known,
            "deprecated": row.deprecated,
        }
        for row in counted
    ]


def _list_labels(call: ApiCall) -> Iterator[Row]:
    time_range = read_range(call.query, call.service.clock(), None)
    since = "" if time_range is None else time_range.since
    until = "9999" if time_range is None else time_range.until
    wanted = ("good", "false_refusal", "missed_harm", "withdrawn")
    labels = call.service.store.find_labels(
        REVIEW, wanted, tenant=call.chosen_tenant(), since=since
    )
    return (label._asdict() for label in labels if label.created_at < until)


def _list_grants(call: ApiCall) -> list[Row]:
    if not call.caller.has_role(Role.ADMIN):
        raise forbidden("only an admin may list grants")
    store, now = call.service.store, format_timestamp(call.service.clock())
    views = list_grant_views(store, now, tenant=call.chosen_tenant(), limit=_MAX_GRANTS)
    return [
        {**msgspec.to_builtins(view.grant or {}), **msgspec.structs.asdict(view), "grant": None}
        for view in views
    ]


def _list_approvals(call: ApiCall) -> Iterator[Row]:
    store, now = call.service.store, call.service.clock()
    found = find_requests(call)
    while rows := list(islice(found, _ROWS_AT_ONCE)):
        given = store.count_votes([row.decision_id for row in rows], format_timestamp(now))
        for row in rows:
            record = store.get(row.decision_id, row.tenant)
            asked = {} if record is None else _decision_columns(record)
            described = {
                **row._asdict(),
                "state": shown_state(row, now),
                "action": row.action_type,
                "group": row.group_name,
                "given": given.get(row.decision_id, 0),
                **{name: asked.get(name) for name in ("amount", "currency", "subject", "intent")},
            }
            yield {name: described[name] for name in _APPROVAL_COLUMNS}


def _list_people(call: ApiCall) -> list[Row]:
    if not call.caller.has_role(Role.ADMIN):
        raise forbidden("only an admin may list people")
    people = call.service.store.list_people(call.chosen_tenant())
    return [msgspec.structs.asdict(person_view(one)) for one in people]


async def download_list(call: ApiCall) -> ApiAnswer:
    """Return a list as a file; its name says which one and in what form.

    Raises:
        ProblemError: There is no such list.
    """
    name, _, form = call.path["name"].rpartition(".")
    if form not in _FORMATS or name not in _WRITERS:
        raise invalid_call(404, "there is no such list")
    call = apply_tenant_choice(call)
    pool, who = call.service.page_pool, call.caller.name
    # The first part is written before the answer begins, so that a failure is an error answer.
    parts = await pool.run_for(who, _WRITERS[name], call, form)
    first = await pool.run_for(who, next, parts, b"")

    async def events() -> AsyncIterator[bytes]:
        part = first
        while part:
            yield part
            part = await pool.run_for(who, next, parts, b"")

    disposition = f'attachment; filename="demur-{name}.{form}"'
    headers = {"content-disposition": disposition}
    return ApiAnswer(b"", 200, _FORMATS[form], headers, events())


def _write_decisions(call: ApiCall, form: str) -> Iterator[bytes]:
    found = _find_decisions(call)
    if form == "csv":
        return write_csv(map(_decision_columns, found), _DECISION_COLUMNS)
    return write_json(map(record_view, found))


def _write_grants(call: ApiCall, form: str) -> Iterator[bytes]:
    rows = _list_grants(call)
    if form == "csv":
        return write_csv(rows, _GRANT_COLUMNS)
    return write_json({name: row.get(name) for name in _GRANT_COLUMNS} for row in rows)


def _write_rows(
    list_rows: Callable[[ApiCall], Iterable[Row]],
    names: tuple[str, ...],
    call: ApiCall,
    form: str,
) -> Iterator[bytes]:
    rows = list_rows(call)
    return write_csv(rows, names) if form == "csv" else write_json(rows)


_WRITERS: Mapping[str, Callable[[ApiCall, str], Iterator[bytes]]] = {
    "approvals": partial(_write_rows, _list_approvals, _APPROVAL_COLUMNS),
    "people": partial(_write_rows, _list_people, _PERSON_COLUMNS),
    "decisions": _write_decisions,
    "reasons": partial(_write_rows, _list_reasons, _REASON_COLUMNS),
    "labels": partial(_write_rows, _list_labels, _LABEL_COLUMNS),
    "grants": _write_grants,
}
