"""The pages of decisions: the list with filters and search, and one decision in full.

The page of one decision marks findings in the texts of its request. A finding has offsets but
not the text they refer to: they are taken to refer to the first text they fit into, the intent
before all others. A text that redaction changed is not marked.
"""

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
    summarize_grants,
)
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.errors import DemurError, InputError, shorten
from demur.model.decision import Outcome
from demur.model.finding import Finding
from demur.model.record import DecisionRecord, Personal
from demur.respond.case import Audience
from demur.respond.graceful import compose, view
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page
from demur.service.dashboard.rendering import encode_segment
from demur.service.record_search import find_newest, require_record
from demur.service.routes.decisions import filter_from_query, is_page_start
from demur.source.item import closest_name
from demur.store.backend import RecordFilter, StorageError, UnavailableError

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


def request_intent(record: DecisionRecord) -> str:
    """Return the intent of the request, if it has one and was not erased."""
    personal = _readable_personal(record)
    action = {} if personal is None else personal.request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    return intent if isinstance(intent, str) else ""


def request_subject(record: DecisionRecord) -> str:
    """Return the requester, if it is known and was not erased."""
    personal = _readable_personal(record)
    return "" if personal is None else personal.requester or ""


def _readable_personal(record: DecisionRecord) -> Personal | None:
    try:
        return record.personal
    except InputError:
        return None


_PER_PAGE = 50
_MIN_ID_LENGTH = 6
_MAX_ID_LENGTH = 26
# A subject is stored as `type:id`; people search for the id.
_SUBJECT_KINDS = ("customer", "user", "agent", "service")
_SHOWN_FILTERS = (
    "outcome",
    "verdict",
    "output",
    "class",
    "code",
    "action",
    "subject",
    "request_id",
    "since",
    "until",
)
_FILTER_CHOICES: dict[str, list[str]] = {
    "outcome": [str(word) for word in Outcome],
    "verdict": [str(word) for word in Verdict],
    "output": [str(word) for word in DecisionOutput],
    "class": [str(word) for word in RefusalClass],
}


def decisions_page(call: ApiCall) -> ApiAnswer:
    """Return the page, or redirect to the one decision that the search found."""
    search_text = call.query.get("q", "").strip()
    if search_text:
        found = _search_decisions(call, search_text)
        if isinstance(found, str):
            return ApiAnswer(b"", 303, headers={"location": f"/decisions/{encode_segment(found)}"})
        return _render_decisions(call, found, None, search_text)
    bad = [
        name
        for name, words in _FILTER_CHOICES.items()
        if call.query.get(name, "") not in {"", *words}
    ]
    if not is_page_start(call.query.get("before", "")):
        bad.append("before")
    problem = f"There is no such {' and no such '.join(bad)}; it was left out." if bad else ""
    unknown = _unknown_code_problem(call)
    if unknown:
        bad.append("code")
        problem = f"{problem} {unknown}".strip()
    query = {name: value for name, value in call.query.items() if name not in bad}
    call = call._replace(query=query)
    store, now = call.service.store, call.service.clock()
    records = find_newest(store, filter_from_query(call), now, _PER_PAGE + 1)
    following = records[_PER_PAGE - 1].decision_id if len(records) > _PER_PAGE else None
    return _render_decisions(call, records[:_PER_PAGE], following, "", problem)


def _unknown_code_problem(call: ApiCall) -> str:
    """Return what is wrong with the code of the query, or an empty string if it is known."""
    code, registry = call.query.get("code", ""), call.service.gate.registry
    if not code or code in registry:
        return ""
    # Old records may name a code that no registry has any more.
    named = RecordFilter(tenant=call.chosen_tenant(), reason_code=code)
    if any(call.service.store.find_records(named, limit=1)):
        return ""
    near = closest_name(code, (entry.code for entry in registry))
    guess = f" Did you mean {near}?" if near else ""
    return f"There is no code {code[:80]}; it was left out.{guess}"


def _render_decisions(
    call: ApiCall,
    records: list[DecisionRecord],
    following: str | None,
    search_text: str,
    problem: str = "",
) -> ApiAnswer:
    filters = {name: call.query.get(name, "") for name in _SHOWN_FILTERS}
    return render_page(
        call,
        "decisions.html",
        title="Decisions",
        section="decisions",
        rows=[decision_row(record, with_tenant=call.chosen_tenant() is None) for record in records],
        filters=filters,
        filtered=any(filters.values()),
        unreviewed=call.query.get("unreviewed") == "1",
        asked=search_text,
        before=call.query.get("before", ""),
        beyond=following,
        problem=problem,
        words=_FILTER_CHOICES,
        codes=[entry.code for entry in call.service.gate.registry],
    )


def _search_decisions(call: ApiCall, search_text: str) -> str | list[DecisionRecord]:
    """Return the id of the one decision that matches, or all records of a subject."""
    store, tenant = call.service.store, call.chosen_tenant()
    if _MIN_ID_LENGTH <= len(search_text) <= _MAX_ID_LENGTH and search_text.isalnum():
        decision_id = store.resolve_id(search_text.upper(), call.caller.tenant)
        if decision_id is not None:
            return decision_id
    for name in [head.tenant for head in store.list_heads()] if tenant is None else [tenant]:
        record = store.by_request(name, search_text)
        if record is not None:
            return record.decision_id
    kinds = () if ":" in search_text else _SUBJECT_KINDS
    found = [
        record
        for subject in (search_text, *(f"{kind}:{search_text}" for kind in kinds))
        for record in store.find_records(
            RecordFilter(tenant=tenant, subject=subject), newest_first=True, limit=_PER_PAGE
        )
    ]
    return sorted(found, key=lambda one: one.decision_id, reverse=True)[:_PER_PAGE]


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
    personal = record.personal
    findings = () if personal is None else personal.findings[:_MAX_FINDINGS]
    removed = () if record.redaction is None else record.redaction.removed
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
        family=[decision_row(one) for one in report.family if len(report.family) > 1],
        near=_nearby_decisions(call, record, personal),
        request=None if personal is None else dict(personal.request),
        facts={} if personal is None else dict(personal.facts),
        signals=dict(report.signals),
        texts=[] if personal is None else mark_texts(personal.request, findings, removed),
        findings=list(map(_finding_row, findings)),
        found=0 if personal is None else len(personal.findings),
        said=_audience_words(record),
        ticket=render_ticket(report),
        replay=None if replay is None else _replay_view(replay),
        failed=error,
    )


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
