"""Stored decisions over HTTP: find, explain, replay, export."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from demur.audit.diff import Unreplayable
from demur.audit.pack import write_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack, report_decision, summarize_grants
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, QueryParameter, json_answer
from demur.service.problem import ProblemError, invalid_request
from demur.service.record_search import find_newest, record_view, require_record
from demur.store.backend import RecordFilter

__all__ = [
    "DECISION_ROUTES",
    "FILTER_PARAMETERS",
    "DecisionExplanation",
    "Page",
    "Replayed",
    "filter_from_query",
    "is_page_start",
]

_DEFAULT_LIMIT, _MAX_LIMIT = 50, 500
_PAGE_START = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|", re.ASCII)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, newest first; `next` is the `before` of the next page, if any."""

    decisions: list[dict[str, Any]]
    next: str | None


class DecisionExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why it was decided so: codes and rules in words, labels, and related decisions."""

    decision_id: str
    summary: str
    codes: dict[str, str]
    rules: list[dict[str, Any]]
    similar: list[dict[str, Any]]
    grants: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    family: list[str]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying a decision."""

    same: bool
    differences: list[dict[str, Any]]
    notes: list[str]


FILTER_PARAMETERS = (
    QueryParameter("verdict", "Only this verdict.", {"type": "string", "enum": list(Verdict)}),
    QueryParameter("output", "Only this output.", {"type": "string", "enum": list(DecisionOutput)}),
    QueryParameter(
        "class", "Only this refusal class.", {"type": "string", "enum": list(RefusalClass)}
    ),
    QueryParameter("code", "Only with this reason code."),
    QueryParameter("action", "Only this type of action."),
    QueryParameter("subject", "Only of this subject."),
    QueryParameter("request_id", "Only this request."),
    QueryParameter("since", "From this time on, like `2026-11-15T14:00:00Z`."),
    QueryParameter("until", "Before this time."),
    QueryParameter("before", "The `next` of an earlier page."),
    QueryParameter("unreviewed", "With `1`: only decisions without a label.", {"enum": ["0", "1"]}),
    QueryParameter("tenant", "Only this tenant, for a key of all tenants."),
)
_FILTER_FIELDS = {
    "verdict": "verdict",
    "output": "decision_output",
    "class": "refusal_class",
    "code": "reason_code",
    "action": "action_type",
    "subject": "subject",
    "request_id": "request_id",
    "since": "since",
    "until": "until",
    "before": "before",
}


def filter_from_query(call: ApiCall) -> RecordFilter:
    """Return the filter of a call's query; it selects only records that the caller may see.

    Raises:
        ProblemError: The tenant is another one, or a time or page start is invalid.
    """
    if not is_page_start(call.query.get("before", "")):
        raise invalid_request(422, "not a decision id", "before", "take the `next` of a page")
    asked = {
        field: call.query[name] for name, field in _FILTER_FIELDS.items() if call.query.get(name)
    }
    for name in ("since", "until"):
        if name in asked:
            asked[name] = _parse_time_parameter(name, asked[name])
    unreviewed = call.query.get("unreviewed") == "1"
    return RecordFilter(tenant=call.chosen_tenant(), unreviewed=unreviewed or None, **asked)


def is_page_start(text: str) -> bool:
    """Return whether a text is a page start: a decision id, or empty for the newest."""
    return _PAGE_START.fullmatch(text) is not None


def _parse_time_parameter(name: str, text: str) -> str:
    """Return a time in the format of records; one without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return format_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise invalid_request(
            422, f"`{text[:40]}` is not a time", name, "like 2026-11-15T14:00:00Z or 2026-11-15"
        ) from None


async def find_decisions(call: ApiCall) -> ApiAnswer:
    """List decisions, newest first."""
    limit = call.read_number("limit", _DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    store, wanted, now = call.service.store, filter_from_query(call), call.service.clock()
    found = await call.service.run_blocking(find_newest, store, wanted, now, limit + 1)
    shown = found[:limit]
    beyond = shown[-1].decision_id if len(found) > limit else None
    return json_answer(Page(decisions=[record_view(record) for record in shown], next=beyond))


async def get_decision(call: ApiCall) -> ApiAnswer:
    """Return one decision."""
    return json_answer(record_view(await call.service.run_blocking(require_record, call)))


async def explain_decision(call: ApiCall) -> ApiAnswer:
    """Explain why it was decided so."""

    def told() -> DecisionExplanation:
        record = require_record(call)
        story = report_decision(call.service.store, record)
        return DecisionExplanation(
            decision_id=record.decision_id,
            summary=record.explanation.summary,
            codes=dict(story.codes),
            rules=[rule._asdict() for rule in story.rules],
            similar=[similar._asdict() for similar in story.similar],
            grants=[grant._asdict() for grant in summarize_grants(record)],
            labels=[label._asdict() for label in story.labels],
            family=[one.decision_id for one in story.family],
        )

    return json_answer(await call.service.run_blocking(told))


async def replay_decision(call: ApiCall) -> ApiAnswer:
    """Replay the decision from its record, and compare."""

    def remade() -> Replayed:
        try:
            made = replay_pack(export_pack(call.service.store, require_record(call)))
        except Unreplayable as error:
            raise ProblemError(
                422, ReasonCode.CONTEXT_MISSING, error.problem, where=error.where, help=error.help
            ) from error
        return Replayed(
            same=made.same,
            differences=[difference._asdict() for difference in made.differences],
            notes=list(made.notes),
        )

    return json_answer(await call.service.run_blocking(remade))


async def export_decision(call: ApiCall) -> ApiAnswer:
    """Return the pack of a decision: everything needed to replay it offline."""

    def packed() -> tuple[str, bytes]:
        record = require_record(call)
        return record.decision_id, write_pack(export_pack(call.service.store, record))

    decision_id, content = await call.service.run_blocking(packed)
    name = f'attachment; filename="{decision_id}.zip"'
    return ApiAnswer(content, media_type="application/zip", headers={"content-disposition": name})


_DECISION_PATH = "/v1/decisions/{decision_id}"
DECISION_ROUTES = (
    ApiRoute(
        "GET",
        "/v1/decisions",
        "find decisions",
        "List decisions, newest first",
        find_decisions,
        Role.READ,
        gives=Page,
        query=(
            *FILTER_PARAMETERS,
            QueryParameter(
                "limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT}
            ),
        ),
    ),
    ApiRoute(
        "GET",
        _DECISION_PATH,
        "get decision",
        "Return one decision",
        get_decision,
        Role.READ,
        gives=DecisionRecord,
        statuses=(404,),
    ),
    ApiRoute(
        "GET",
        f"{_DECISION_PATH}/explain",
        "explain decision",
        "Explain why it was decided so",
        explain_decision,
        Role.READ,
        gives=DecisionExplanation,
        statuses=(404,),
    ),
    ApiRoute(
        "POST",
        f"{_DECISION_PATH}/replay",
        "replay decision",
        "Replay the decision, and compare",
        replay_decision,
        Role.READ,
        gives=Replayed,
        statuses=(404,),
    ),
    ApiRoute(
        "GET",
        f"{_DECISION_PATH}/pack",
        "export decision",
        "Return the pack of a decision, which replays offline",
        export_decision,
        Role.READ,
        statuses=(404,),
        media_type="application/zip",
    ),
)
