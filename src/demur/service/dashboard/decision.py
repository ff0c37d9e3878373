"""The page of one decision: request, findings, rules, and the words for each audience."""

from typing import Any

import msgspec

from demur.audit.exporting import export_pack
from demur.audit.replay import ReplayResult, Unreplayable, replay_pack
from demur.audit.story import report_decision, summarize_grants
from demur.audit.ticket import render_ticket
from demur.errors import DemurError, InputError
from demur.model.record import DecisionRecord, Personal
from demur.respond.audience import Audience
from demur.respond.compose import compose
from demur.respond.views import view
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.highlight import MarkedText, mark_texts
from demur.service.dashboard.rows import DecisionRow, decision_row
from demur.service.routes.shown import require_record
from demur.store.backend import RecordFilter

__all__ = ["AudienceWords", "FindingRow", "decision_page", "replay_page"]

_MAX_NEARBY = 6
_MAX_FINDINGS = 200


class AudienceWords(msgspec.Struct, frozen=True, kw_only=True):
    """The words for each audience; empty if nothing was refused."""

    person: str = ""
    agent: dict[str, Any] = {}
    operator: str = ""


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, with the number of its marks in the texts."""

    number: int
    code: str
    surface: str
    action: str
    detail: str
    evidence: dict[str, Any]
    span: str


def decision_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    return _render_decision(call, None, None)


def replay_page(call: ApiCall) -> ApiAnswer:
    """Replay the decision, and return the page with the result."""
    record = require_record(call)
    try:
        made = replay_pack(export_pack(call.service.store, record))
    except (Unreplayable, InputError) as error:
        return _render_decision(call, None, error)
    return _render_decision(call, made, None)


def _render_decision(
    call: ApiCall, replay_result: ReplayResult | None, error: DemurError | None
) -> ApiAnswer:
    record = require_record(call)
    story = report_decision(call.service.store, record)
    personal = record.personal
    return render_page(
        call,
        "decision.html",
        title=f"Decision {record.decision_id}",
        section="decisions",
        record=record,
        row=decision_row(record),
        codes=[(code, story.codes.get(code, "")) for code in record.reason_codes],
        lifted=[code for code in record.resolved_codes if code not in record.reason_codes],
        rules=[rule._asdict() for rule in story.rules],
        similar=[one._asdict() for one in story.similar],
        grants=[one._asdict() for one in summarize_grants(record)],
        labels=[one._asdict() for one in story.labels],
        family=[decision_row(one) for one in story.family if len(story.family) > 1],
        near=_nearby_decisions(call, record, personal),
        request=None if personal is None else dict(personal.request),
        facts={} if personal is None else dict(personal.facts),
        signals=dict(story.signals),
        texts=_highlighted_texts(record, personal),
        findings=_finding_rows(personal),
        found=0 if personal is None else len(personal.findings),
        said=_audience_words(record),
        ticket=render_ticket(story),
        replay=None if replay_result is None else _replay_view(replay_result),
        failed=error,
    )


def _highlighted_texts(record: DecisionRecord, personal: Personal | None) -> list[MarkedText]:
    if personal is None:
        return []
    removed = () if record.redaction is None else record.redaction.removed
    return mark_texts(personal.request, personal.findings[:_MAX_FINDINGS], removed)


def _finding_rows(personal: Personal | None) -> list[FindingRow]:
    findings = () if personal is None else personal.findings[:_MAX_FINDINGS]
    return [
        FindingRow(
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


def _audience_words(record: DecisionRecord) -> AudienceWords:
    """Return the words for each audience."""
    try:
        return AudienceWords(
            person=compose(record).text,
            agent=view(record, Audience.AGENT),
            operator=compose(record, audience=Audience.OPERATOR).text,
        )
    except InputError:
        return AudienceWords()


def _nearby_decisions(
    call: ApiCall, record: DecisionRecord, personal: Personal | None
) -> list[DecisionRow]:
    """Return other recent decisions for the same subject."""
    if personal is None or personal.requester is None:
        return []
    wanted = RecordFilter(tenant=record.tenant, subject=personal.requester)
    found = call.service.store.find_records(wanted, newest_first=True, limit=_MAX_NEARBY + 1)
    return [decision_row(one) for one in found if one.decision_id != record.decision_id][
        :_MAX_NEARBY
    ]


def _replay_view(made: ReplayResult) -> dict[str, Any]:
    return {
        "same": made.same,
        "verdict": str(made.replayed.verdict),
        "codes": list(made.replayed.reason_codes),
        "rules": [rule.rule_id for rule in made.replayed.matched_rules],
        "differences": [one._asdict() for one in made.differences],
        "notes": list(made.notes),
    }
