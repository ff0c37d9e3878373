"""The rows of decisions, and the page of one decision in full.

The page of one decision marks findings in the texts of its request. A finding has offsets but
not the text they refer to: they are taken to refer to the first text they fit into, the intent
before all others. A text that redaction changed is not marked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from demur.audit.diff import Unreplayable
from demur.audit.replay import ReplayResult, replay_pack
from demur.audit.report import (
    export_pack,
    find_cause,
    format_amount,
    render_ticket,
    report_decision,
    request_intent,
    request_subject,
    summarize_grants,
)
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError, shorten
from demur.evals.from_store import describe_use
from demur.model.finding import Finding
from demur.model.record import DecisionRecord, Personal
from demur.respond.case import Audience
from demur.respond.graceful import compose, view
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.approval_course import describe_course
from demur.service.dashboard.decision_query import find_neighbours
from demur.service.dashboard.frame import render_page
from demur.service.record_search import require_record
from demur.store.backend import RecordFilter, StorageError, UnavailableError
from demur.store.rows import REVIEW, WITHDRAWN, ApprovalRow, Label

_MAX_DEPTH = 12


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text; `marks` are the numbers of the findings that cover it."""

    text: str
    marks: list[int]
    label: str


class MarkedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a request, in pieces."""

    path: str
    pieces: list[TextPiece]


def mark_texts(
    request: Mapping[str, Any], findings: Sequence[Finding], removed: Sequence[str] = ()
) -> list[MarkedText]:
    """Return the texts that contain findings, each cut where a mark begins or ends.

    Findings are numbered from 1, in the order of the record.
    """
    texts = [pair for pair in _walk_texts(request, "", 0) if pair[0] not in removed]
    texts.sort(key=lambda pair: pair[0] != "action.intent")
    spans: dict[str, list[tuple[int, int, int, str]]] = {}
    for number, finding in enumerate(findings, start=1):
        span = finding.span
        if span is None or span.start == span.end:
            continue
        place = next((path for path, text in texts if len(text) >= span.end), None)
        if place is not None:
            spans.setdefault(place, []).append((span.start, span.end, number, finding.code))
    return [
        MarkedText(path=path, pieces=list(_cut_pieces(text, spans[path])))
        for path, text in texts
        if path in spans
    ]


def _cut_pieces(text: str, spans: list[tuple[int, int, int, str]]) -> Iterator[TextPiece]:
    edges = sorted({0, len(text), *(edge for span in spans for edge in span[:2])})
    for start, end in pairwise(edges):
        over = [span for span in spans if span[0] <= start and end <= span[1]]
        yield TextPiece(
            text=text[start:end],
            marks=[number for _, _, number, _ in over],
            label=", ".join(dict.fromkeys(code for *_, code in over)),
        )


def _walk_texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _walk_texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        for place, inner in enumerate(value):
            yield from _walk_texts(inner, f"{path}[{place}]", depth + 1)


_SPEAKERS = {
    "user": "The user",
    "assistant": "The model",
    "tool": "The tool",
    "document": "The document",
}


def view_excerpt(personal: Personal | None) -> dict[str, Any] | None:
    """Return what was said at a check, in pieces, and by whom; None if it was not recorded."""
    excerpt = None if personal is None else personal.excerpt
    if excerpt is None:
        return None
    span = excerpt.span
    spans = [] if span is None or span.start == span.end else [(span.start, span.end, 1, "")]
    return {
        "speaker": _SPEAKERS[excerpt.speaker],
        "source": excerpt.source,
        "prompt": excerpt.prompt,
        "pieces": list(_cut_pieces(excerpt.text, spans)),
        "is_cut": excerpt.is_cut,
    }


_MAX_INTENT_LENGTH = 160


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as a table row. `tenant` is empty where all rows have the same."""

    decision_id: str
    created_at: str
    tenant: str
    outcome: str
    verdict: str
    output: str
    refusal_class: str
    codes: list[str]
    action: str
    amount: str
    intent: str
    who: str
    enforced: bool


def decision_row(record: DecisionRecord, *, with_tenant: bool = False) -> DecisionRow:
    """Return the row of a record."""
    return DecisionRow(
        decision_id=record.decision_id,
        created_at=record.created_at,
        tenant=record.tenant if with_tenant else "",
        outcome=record.outcome,
        verdict=record.verdict,
        output=record.decision_output,
        refusal_class=record.refusal_class or "",
        codes=list(record.reason_codes),
        action=record.action_type,
        amount=format_amount(record),
        intent=shorten(request_intent(record), _MAX_INTENT_LENGTH),
        who=request_subject(record),
        enforced=record.enforced,
    )


_MAX_NEARBY = 6
_MAX_FINDINGS = 200


def decision_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    return _render_one(call, None, None)


def replay_page(call: ApiCall) -> ApiAnswer:
    """Replay the decision, and return the page with the result."""
    record = require_record(call)
    try:
        replay = replay_pack(export_pack(call.service.store, record))
    except UnavailableError:
        raise
    except (Unreplayable, InputError, StorageError) as error:
        return _render_one(call, None, error)
    return _render_one(call, replay, None)


def _render_one(call: ApiCall, replay: ReplayResult | None, error: DemurError | None) -> ApiAnswer:
    record = require_record(call)
    report = report_decision(call.service.store, record)
    neighbours, filters = find_neighbours(call, record.decision_id)
    personal = record.personal
    findings = () if personal is None else personal.findings[:_MAX_FINDINGS]
    removed = () if record.redaction is None else record.redaction.removed
    approval = _find_approval(call, record)
    return render_page(
        call,
        "decision.html",
        title=f"Decision {record.decision_id}",
        section="decisions",
        record=record,
        row=decision_row(record),
        changed=report.changed,
        codes=[(code, report.codes.get(code, "")) for code in record.reason_codes],
        lifted=[code for code in record.resolved_codes if code not in record.reason_codes],
        rules=[rule._asdict() for rule in report.rules],
        similar=[one._asdict() for one in report.similar],
        grants=[one._asdict() for one in summarize_grants(record)],
        labels=[one._asdict() for one in report.labels],
        use=_latest_use(record, report.labels),
        excerpt=view_excerpt(personal),
        approval=None if approval is None else approval._asdict(),
        course=[] if approval is None else describe_course(call, approval),
        family=[decision_row(one) for one in report.family if len(report.family) > 1],
        near=_nearby_decisions(call, record, personal),
        neighbours=neighbours,
        filters=filters,
        request=None if personal is None else dict(personal.request),
        facts={} if personal is None else dict(personal.facts),
        signals=dict(report.signals),
        texts=[] if personal is None else mark_texts(personal.request, findings, removed),
        findings=list(map(_finding_row, findings)),
        found=0 if personal is None else len(personal.findings),
        said=_audience_words(record),
        overruled=_explain_overruled(record),
        trace=_view_trace(call, record, personal),
        ticket=render_ticket(report),
        replay=None if replay is None else _replay_view(replay),
        failed=error,
    )


def _explain_overruled(record: DecisionRecord) -> str:
    """Return why a rule that allows did not decide; empty if there was none."""
    cause = find_cause(record)
    if not cause.allowing_rules or record.verdict is Verdict.ALLOW:
        return ""
    plural = len(cause.allowing_rules) > 1
    names = f"rule{'s' * plural} {', '.join(cause.allowing_rules)}"
    code = record.leading_code
    surfaces = dict.fromkeys(str(one.surface) for one in cause.found if one.code == code)
    if surfaces:
        what = f"the {' and the '.join(surfaces)} guard found {code}"
        order = "a finding that refuses counts more than a rule that allows"
    elif cause.refusing_rules:
        what = f"{', '.join(cause.refusing_rules)} refuses with {code}"
        order = "of two rules that match, the one that refuses counts"
    else:
        what = f"{code} refuses"
        order = "what refuses counts more than a rule that allows"
    return f"{names[:1].upper()}{names[1:]} would allow this, but {what}: {order}."


_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_TRACE_NAMES = ("traceparent", "trace_id")
_NO_TRACE = "0" * 32


class TraceView(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a decision, and its address if the settings say where traces are."""

    trace_id: str
    address: str


def _view_trace(
    call: ApiCall, record: DecisionRecord, personal: Personal | None
) -> TraceView | None:
    """Return the trace that the request names; None if it names none."""
    named = dict(record.context_ref or {})
    request = {} if personal is None else personal.request
    for texts in (named, request):
        for path, text in _walk_texts(texts, "", 0):
            if path.rpartition(".")[2] not in _TRACE_NAMES:
                continue
            found = _TRACE_PARENT.fullmatch(text) or _TRACE_ID.fullmatch(text)
            trace_id = found[found.re.groups] if found else _NO_TRACE
            if trace_id != _NO_TRACE:
                address = call.service.settings.trace_url.replace("{trace_id}", trace_id)
                return TraceView(trace_id=trace_id, address=address)
    return None


def view_use(record: DecisionRecord, label: Label) -> list[tuple[str, str]]:
    """Return commands, and what they make of a label."""
    return [(names, words.replace("`", "")) for names, words in describe_use(record, label).lines]


def _latest_use(record: DecisionRecord, labels: Sequence[Label]) -> list[tuple[str, str]]:
    """Return what becomes of the latest review of a decision; nothing if it has none."""
    own = [one for one in labels if (one.decision_id, one.kind) == (record.decision_id, REVIEW)]
    return [] if not own or own[-1].value == WITHDRAWN else view_use(record, own[-1])


def _find_approval(call: ApiCall, record: DecisionRecord) -> ApprovalRow | None:
    """Return the request for approval of a decision, or the one that the decision came of."""
    for decision_id in filter(None, (record.decision_id, record.continues, record.root_id)):
        found = call.service.store.get_approval(decision_id, record.tenant)
        if found is not None:
            return found
    return None


def _finding_row(finding: Finding) -> dict[str, Any]:
    span = finding.span
    row = {name: getattr(finding, name) for name in ("code", "surface", "action", "detail")}
    shown = "" if span is None else f"{span.start} to {span.end}"
    return {**row, "evidence": dict(finding.evidence), "span": shown}


def _audience_words(record: DecisionRecord) -> dict[str, Any]:
    """Return the words for each audience; empty if nothing was refused."""
    try:
        return {
            "person": compose(record).text,
            "agent": view(record, Audience.AGENT),
            "operator": compose(record, audience=Audience.OPERATOR).text,
        }
    except InputError:
        return {"person": "", "agent": {}, "operator": ""}


def _nearby_decisions(
    call: ApiCall, record: DecisionRecord, personal: Personal | None
) -> list[DecisionRow]:
    """Return other recent decisions for the same subject."""
    if personal is None or personal.requester is None:
        return []
    query = RecordFilter(tenant=record.tenant, subject=personal.requester)
    found = call.service.store.find_records(query, newest_first=True, limit=_MAX_NEARBY + 1)
    others = [one for one in found if one.decision_id != record.decision_id]
    return [decision_row(one) for one in others[:_MAX_NEARBY]]


def _replay_view(replay: ReplayResult) -> dict[str, Any]:
    return {
        "same": replay.same,
        "outcome": str(replay.replayed.outcome),
        "cause": str(find_cause(replay.replayed)),
        "differences": [one._asdict() for one in replay.differences],
        "notes": list(replay.notes),
    }
