"""The page of one decision: request, findings, rules, and the words for each audience."""

from typing import Any

import msgspec

from demur.audit.exporting import pack_of
from demur.audit.replay import Replay, Unreplayable, replay
from demur.audit.story import gather_story, grants_told
from demur.audit.ticket import ticket
from demur.errors import DemurError, InputError
from demur.model.record import DecisionRecord, Personal
from demur.respond.audience import Audience
from demur.respond.compose import compose
from demur.respond.views import view
from demur.service.call import Answer, Call
from demur.service.dashboard.frame import page
from demur.service.dashboard.highlight import Marked, marked_texts
from demur.service.dashboard.rows import Row, row_of
from demur.service.routes.shown import record_named
from demur.store.backend import Filter

__all__ = ["Said", "Seen", "decision", "replayed"]

_NEIGHBOURS = 6
_MOST_FINDINGS = 200


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The words for each audience; empty if nothing was refused."""

    person: str = ""
    agent: dict[str, Any] = {}
    operator: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, with the number of its marks in the texts."""

    number: int
    code: str
    surface: str
    action: str
    detail: str
    evidence: dict[str, Any]
    span: str


def decision(call: Call) -> Answer:
    """Return the page."""
    return _page(call, None, None)


def replayed(call: Call) -> Answer:
    """Replay the decision, and return the page with the result."""
    record = record_named(call)
    try:
        made = replay(pack_of(call.service.store, record))
    except (Unreplayable, InputError) as error:
        return _page(call, None, error)
    return _page(call, made, None)


def _page(call: Call, made: Replay | None, failed: DemurError | None) -> Answer:
    record = record_named(call)
    story = gather_story(call.service.store, record)
    personal = record.personal
    return page(
        call,
        "decision.html",
        title=f"Decision {record.decision_id}",
        section="decisions",
        record=record,
        row=row_of(record),
        codes=[(code, story.codes.get(code, "")) for code in record.reason_codes],
        lifted=[code for code in record.resolved_codes if code not in record.reason_codes],
        rules=[rule._asdict() for rule in story.rules],
        similar=[one._asdict() for one in story.similar],
        grants=[one._asdict() for one in grants_told(record)],
        labels=[one._asdict() for one in story.labels],
        family=[row_of(one) for one in story.family if len(story.family) > 1],
        near=_near(call, record, personal),
        request=None if personal is None else dict(personal.request),
        facts={} if personal is None else dict(personal.facts),
        signals=dict(story.signals),
        texts=_texts(record, personal),
        findings=_seen(personal),
        found=0 if personal is None else len(personal.findings),
        said=_said(record),
        ticket=ticket(story),
        replay=None if made is None else _told(made),
        failed=failed,
    )


def _texts(record: DecisionRecord, personal: Personal | None) -> list[Marked]:
    if personal is None:
        return []
    removed = () if record.redaction is None else record.redaction.removed
    return marked_texts(personal.request, personal.findings[:_MOST_FINDINGS], removed)


def _seen(personal: Personal | None) -> list[Seen]:
    findings = () if personal is None else personal.findings[:_MOST_FINDINGS]
    return [
        Seen(
            number=number,
            code=finding.code,
            surface=finding.surface,
            action=finding.action,
            detail=finding.detail,
            evidence=dict(finding.evidence),
            span="" if finding.span is None else f"{finding.span.start} to {finding.span.end}",
        )
        for number, finding in enumerate(findings, start=1)
    ]


def _said(record: DecisionRecord) -> Said:
    """Return the words for each audience."""
    try:
        return Said(
            person=compose(record).text,
            agent=view(record, Audience.AGENT),
            operator=compose(record, audience=Audience.OPERATOR).text,
        )
    except InputError:
        return Said()


def _near(call: Call, record: DecisionRecord, personal: Personal | None) -> list[Row]:
    """Return other recent decisions for the same subject."""
    if personal is None or personal.requester is None:
        return []
    wanted = Filter(tenant=record.tenant, subject=personal.requester)
    found = call.service.store.find(wanted, newest_first=True, limit=_NEIGHBOURS + 1)
    return [row_of(one) for one in found if one.decision_id != record.decision_id][:_NEIGHBOURS]


def _told(made: Replay) -> dict[str, Any]:
    return {
        "same": made.same,
        "verdict": str(made.replayed.verdict),
        "codes": list(made.replayed.reason_codes),
        "rules": [rule.rule_id for rule in made.replayed.matched_rules],
        "differences": [one._asdict() for one in made.differences],
        "notes": list(made.notes),
    }
