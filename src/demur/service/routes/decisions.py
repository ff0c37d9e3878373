"""Stored decisions over HTTP: find, explain, replay, export."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from demur.audit.exporting import pack_of
from demur.audit.pack import write_pack
from demur.audit.replay import Unreplayable, replay
from demur.audit.story import gather_story, grants_told
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.clock import timestamp
from demur.model.record import DecisionRecord
from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.finding_pages import newest
from demur.service.problem import ProblemError, invalid
from demur.service.route import Query, Route
from demur.service.routes.shown import as_shown, record_named
from demur.store.backend import Filter

__all__ = ["FILTERS", "ROUTES", "Page", "Replayed", "Told", "is_place", "wanted_of"]

_USUAL, _MOST = 50, 500
_PLACE = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|", re.ASCII)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, newest first; `next` is the `before` of the next page, if any."""

    decisions: list[dict[str, Any]]
    next: str | None


class Told(msgspec.Struct, frozen=True, kw_only=True):
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


FILTERS = (
    Query("verdict", "Only this verdict.", {"type": "string", "enum": list(Verdict)}),
    Query("output", "Only this output.", {"type": "string", "enum": list(DecisionOutput)}),
    Query("class", "Only this refusal class.", {"type": "string", "enum": list(RefusalClass)}),
    Query("code", "Only with this reason code."),
    Query("action", "Only this type of action."),
    Query("subject", "Only of this subject."),
    Query("request_id", "Only this request."),
    Query("since", "From this time on, like `2026-11-15T14:00:00Z`."),
    Query("until", "Before this time."),
    Query("before", "The `next` of an earlier page."),
    Query("unreviewed", "With `1`: only decisions without a label.", {"enum": ["0", "1"]}),
    Query("tenant", "Only this tenant, for a key of all tenants."),
)
_FIELDS = {
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


def wanted_of(call: Call) -> Filter:
    """Return the filter of a call's query; it selects only records that the caller may see.

    Raises:
        ProblemError: The tenant is another one, or a time or page start is invalid.
    """
    if not is_place(call.query.get("before", "")):
        raise invalid(422, "not a decision id", "before", "take the `next` of a page")
    asked = {field: call.query[name] for name, field in _FIELDS.items() if call.query.get(name)}
    for name in ("since", "until"):
        if name in asked:
            asked[name] = _moment(name, asked[name])
    unreviewed = call.query.get("unreviewed") == "1"
    return Filter(tenant=call.tenant(), unreviewed=unreviewed or None, **asked)


def is_place(text: str) -> bool:
    """Return whether a text is a page start: a decision id, or empty for the newest."""
    return _PLACE.fullmatch(text) is not None


def _moment(name: str, text: str) -> str:
    """Return a time in the format of records; one without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise invalid(
            422, f"`{text[:40]}` is not a time", name, "like 2026-11-15T14:00:00Z or 2026-11-15"
        ) from None


async def find(call: Call) -> Answer:
    """List decisions, newest first."""
    limit = call.number("limit", _USUAL, most=_MOST)
    store, wanted, now = call.service.store, wanted_of(call), call.service.clock()
    found = await call.service.work(newest, store, wanted, now, limit + 1)
    shown = found[:limit]
    beyond = shown[-1].decision_id if len(found) > limit else None
    return answer(Page(decisions=[as_shown(record) for record in shown], next=beyond))


async def get(call: Call) -> Answer:
    """Return one decision."""
    return answer(as_shown(await call.service.work(record_named, call)))


async def explain(call: Call) -> Answer:
    """Explain why it was decided so."""

    def told() -> Told:
        record = record_named(call)
        story = gather_story(call.service.store, record)
        return Told(
            decision_id=record.decision_id,
            summary=record.explanation.summary,
            codes=dict(story.codes),
            rules=[rule._asdict() for rule in story.rules],
            similar=[similar._asdict() for similar in story.similar],
            grants=[grant._asdict() for grant in grants_told(record)],
            labels=[label._asdict() for label in story.labels],
            family=[one.decision_id for one in story.family],
        )

    return answer(await call.service.work(told))


async def again(call: Call) -> Answer:
    """Replay the decision from its record, and compare."""

    def remade() -> Replayed:
        try:
            made = replay(pack_of(call.service.store, record_named(call)))
        except Unreplayable as error:
            raise ProblemError(
                422, ReasonCode.CONTEXT_MISSING, error.problem, where=error.where, help=error.help
            ) from error
        return Replayed(
            same=made.same,
            differences=[difference._asdict() for difference in made.differences],
            notes=list(made.notes),
        )

    return answer(await call.service.work(remade))


async def export(call: Call) -> Answer:
    """Return the pack of a decision: everything needed to replay it offline."""

    def packed() -> tuple[str, bytes]:
        record = record_named(call)
        return record.decision_id, write_pack(pack_of(call.service.store, record))

    decision_id, content = await call.service.work(packed)
    name = f'attachment; filename="{decision_id}.zip"'
    return Answer(content, media_type="application/zip", headers={"content-disposition": name})


_ONE = "/v1/decisions/{decision_id}"
ROUTES = (
    Route(
        "GET",
        "/v1/decisions",
        "find decisions",
        "List decisions, newest first",
        find,
        Role.READ,
        gives=Page,
        query=(
            *FILTERS,
            Query("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MOST}),
        ),
    ),
    Route(
        "GET",
        _ONE,
        "get decision",
        "Return one decision",
        get,
        Role.READ,
        gives=DecisionRecord,
        statuses=(404,),
    ),
    Route(
        "GET",
        f"{_ONE}/explain",
        "explain decision",
        "Explain why it was decided so",
        explain,
        Role.READ,
        gives=Told,
        statuses=(404,),
    ),
    Route(
        "POST",
        f"{_ONE}/replay",
        "replay decision",
        "Replay the decision, and compare",
        again,
        Role.READ,
        gives=Replayed,
        statuses=(404,),
    ),
    Route(
        "GET",
        f"{_ONE}/pack",
        "export decision",
        "Return the pack of a decision, which replays offline",
        export,
        Role.READ,
        statuses=(404,),
        media_type="application/zip",
    ),
)
