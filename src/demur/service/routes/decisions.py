"""Stored decisions over HTTP: find, explain, replay, export."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from demur.audit.diff import Unreplayable
from demur.audit.pack import Pack, write_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack, report_decision, summarize_grants
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.clock import format_timestamp
from demur.model.decision import Outcome
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import (
    TENANT_PARAMETER,
    ApiAnswer,
    ApiCall,
    QueryField,
    RouteTable,
    number_parameter,
)
from demur.service.heavy_work import find_page
from demur.service.problem import ProblemError, forbidden, invalid_call
from demur.service.record_search import record_view, require_record
from demur.source.item import did_you_mean
from demur.store.backend import RecordFilter

_DEFAULT_LIMIT, _MAX_LIMIT = 50, 500
DECISION_ROUTES = RouteTable()
_DECISION = "/v1/decisions/{decision_id}"
_PAGE_START = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|", re.ASCII)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, newest first; `next` is the `before` of the next page, if any."""

    decisions: list[dict[str, Any]]
    next: str | None


class DecisionExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why it was decided so: codes and rules in words, labels, and related decisions.

    `changed` says which parts in the store are not those that decided; they are left out.
    """

    decision_id: str
    summary: str
    codes: dict[str, str]
    rules: list[dict[str, Any]]
    similar: list[dict[str, Any]]
    grants: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    family: list[str]
    changed: list[str]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying a decision."""

    same: bool
    differences: list[dict[str, Any]]
    notes: list[str]


FILTER_PARAMETERS = (
    QueryField("outcome", "Only this outcome.", {"type": "string", "enum": list(Outcome)}),
    QueryField("verdict", "Only this verdict.", {"type": "string", "enum": list(Verdict)}),
    QueryField("output", "Only this output.", {"type": "string", "enum": list(DecisionOutput)}),
    QueryField("class", "Only this refusal class.", {"type": "string", "enum": list(RefusalClass)}),
    QueryField("code", "Only with this reason code."),
    QueryField("action", "Only this type of action."),
    QueryField("subject", "Only of this subject."),
    QueryField("request_id", "Only this request."),
    QueryField("q", "Only with these words: each begins a word of ids, subject, action, reasons."),
    QueryField("since", "From this time on, like `2026-11-15T14:00:00Z`."),
    QueryField("until", "Before this time."),
    QueryField("before", "The `next` of an earlier page."),
    QueryField("unreviewed", "With `1`: only decisions without a label.", {"enum": ["0", "1"]}),
    TENANT_PARAMETER,
)
_FIELDS = {
    "outcome": "outcome",
    "verdict": "verdict",
    "output": "decision_output",
    "class": "refusal_class",
    "code": "reason_code",
    "action": "action_type",
    "subject": "subject",
    "request_id": "request_id",
    "q": "text",
    "since": "since",
    "until": "until",
    "before": "before",
}


def filter_from_query(call: ApiCall) -> RecordFilter:
    """Return the filter of a call's query; it selects only records that the caller may see.

    Raises:
        ProblemError: The tenant is another one, there is no such code, or a time or page start is
            invalid.
    """
    if not is_page_start(call.query.get("before", "")):
        raise invalid_call(422, "not a decision id", "before", "take the `next` of a page")
    fields: dict[str, Any] = {
        field: call.query[name] for name, field in _FIELDS.items() if call.query.get(name)
    }
    code, registry = call.query.get("code"), call.service.gate.registry
    if code and code not in registry:
        meant = did_you_mean(code, (entry.code for entry in registry))
        raise invalid_call(422, f"unknown code `{code[:80]}`", "code", meant)
    for name in ("since", "until"):
        if name in fields:
            fields[name] = format_timestamp(parse_time_parameter(name, fields[name]))
    unreviewed = call.query.get("unreviewed") == "1"
    return RecordFilter(tenant=call.chosen_tenant(), unreviewed=unreviewed or None, **fields)


def is_page_start(text: str) -> bool:
    """Return whether a text is a page start: a decision id, or empty for the newest."""
    return _PAGE_START.fullmatch(text) is not None


def parse_time_parameter(name: str, text: str) -> datetime:
    """Return the time of a parameter; one without a zone is in UTC.

    Raises:
        ProblemError: It is not a time.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise invalid_call(
            422, f"`{text[:40]}` is not a time", name, "like 2026-11-15T14:00:00Z or 2026-11-15"
        ) from None


@DECISION_ROUTES.add(
    "GET /v1/decisions",
    "find decisions",
    Role.READ,
    gives=Page,
    query=(*FILTER_PARAMETERS, number_parameter("limit", "How many.", _MAX_LIMIT)),
)
async def find_decisions(call: ApiCall) -> ApiAnswer:
    """List decisions, newest first."""
    limit = call.read_number("limit", _DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    service, query = call.service, filter_from_query(call)
    service.require_store()
    pool, now = service.heavy_pool, service.clock()
    run = call.run_heavy if limit > _DEFAULT_LIMIT and pool.reads_store else call.run_blocking
    return ApiAnswer(await run(pool.call, find_page, query, now, limit))


@DECISION_ROUTES.add_sync(
    f"GET {_DECISION}", "get decision", Role.READ, gives=DecisionRecord, statuses=(404,)
)
def get_decision(call: ApiCall) -> dict[str, Any]:
    """Return one decision."""
    return record_view(require_record(call))


@DECISION_ROUTES.add_sync(
    f"GET {_DECISION}/explain",
    "explain decision",
    Role.READ,
    gives=DecisionExplanation,
    statuses=(404,),
)
def explain_decision(call: ApiCall) -> DecisionExplanation:
    """Explain why it was decided so."""
    record = require_record(call)
    report = report_decision(call.service.store, record)
    return DecisionExplanation(
        decision_id=record.decision_id,
        summary=record.explanation.summary,
        codes=dict(report.codes),
        rules=[rule._asdict() for rule in report.rules],
        similar=[similar._asdict() for similar in report.similar],
        grants=[grant._asdict() for grant in summarize_grants(record)],
        labels=[label._asdict() for label in report.labels],
        family=[one.decision_id for one in report.family],
        changed=list(report.changed),
    )


@DECISION_ROUTES.add_sync(
    f"POST {_DECISION}/replay", "replay decision", Role.READ, gives=Replayed, statuses=(404,)
)
def replay_decision(call: ApiCall) -> Replayed:
    """Replay the decision, and compare."""
    try:
        replay = replay_pack(export_pack(call.service.store, require_record(call)))
    except Unreplayable as error:
        raise ProblemError(
            422, ReasonCode.CONTEXT_MISSING, error.problem, where=error.where, help=error.help
        ) from error
    return Replayed(
        same=replay.same,
        differences=[difference._asdict() for difference in replay.differences],
        notes=list(replay.notes),
    )


@DECISION_ROUTES.add(
    f"GET {_DECISION}/pack",
    "export decision",
    Role.READ,
    statuses=(404,),
    media_type="application/zip",
)
async def export_decision(call: ApiCall) -> ApiAnswer:
    """Return the pack of a decision, which replays offline."""

    def write_stored() -> ApiAnswer:
        record = require_record(call)
        pack = export_pack(call.service.store, record)
        _require_no_signatures(call, pack)
        content = write_pack(pack)
        name = f'attachment; filename="{record.decision_id}.zip"'
        headers = {"content-disposition": name}
        return ApiAnswer(content, media_type="application/zip", headers=headers)

    return await call.run_blocking(write_stored)


def _require_no_signatures(call: ApiCall, pack: Pack) -> None:
    """Leave packs of earlier versions, whose records hold signatures of grants, to admins."""
    parts = (record.personal for record in (pack.record, pack.earlier) if record is not None)
    grants = (grant for personal in parts if personal is not None for grant in personal.grants)
    if any(grant.signature for grant in grants) and not call.caller.has_role(Role.ADMIN):
        raise forbidden("the record holds the signature of a grant, so only an admin may export it")
