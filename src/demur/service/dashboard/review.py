"""The review queue, and the labels that people give from it.

A better answer is kept as a note that begins with `answer:`, which is how evals recognise it. A
comment next to it is a separate label before it: the latest label counts, and all are kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from demur.audit.report import find_cause
from demur.codes.vocabulary import Verdict
from demur.evals.preferred_answers import ANSWER_PREFIX
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.counts import PERIODS
from demur.service.dashboard.decisions import decision_row, request_intent
from demur.service.dashboard.frame import is_local_path, parse_form, render_page
from demur.service.dashboard.overview import period_counts
from demur.service.dashboard.rendering import encode_segment
from demur.service.problem import invalid_call
from demur.service.record_search import find_newest, require_record
from demur.service.routes.labels import REVIEW
from demur.store.backend import RecordFilter
from demur.store.rows import Label

REVIEW_VALUES = ("good", "false_refusal", "missed_harm")
_MAX_NOTE_LENGTH = 2000


def label_decision(call: ApiCall) -> ApiAnswer:
    """Store a label, and redirect back."""
    form = parse_form(call.body)
    value = form.get("value", "")
    if value not in REVIEW_VALUES:
        choices = f"one of {', '.join(REVIEW_VALUES)}"
        raise invalid_call(422, "there is no such label", "value", choices)
    notes = list(_notes_from_form(form))
    record = require_record(call)
    now = format_timestamp(call.service.clock())
    for note in notes:
        call.service.store.add_label(
            Label(record.decision_id, record.tenant, now, REVIEW, value, note, call.caller.name)
        )
    back = form.get("next", "")
    usual = f"/decisions/{encode_segment(record.decision_id)}#labels"
    return ApiAnswer(b"", 303, headers={"location": back if is_local_path(back) else usual})


def _notes_from_form(form: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes of a form, at least one; a better answer is the last.

    Raises:
        ProblemError: One is too long, or contains NUL.
    """
    # Browsers send line breaks as two characters, but count them as one.
    comment, answer = (
        form.get(name, "").replace("\r\n", "\n").strip() for name in ("note", "answer")
    )
    kept = f"{ANSWER_PREFIX} {answer}" if answer else ""
    for name, note in (("note", comment), ("answer", kept)):
        if "\0" in note:
            raise invalid_call(422, "a note must not contain NUL", name)
        if len(note) > _MAX_NOTE_LENGTH:
            problem = f"a note must not exceed {_MAX_NOTE_LENGTH} characters"
            raise invalid_call(422, problem, name)
    if comment or not kept:
        yield comment
    if kept:
        yield kept


QUEUES = {
    "open": "To label",
    "escalations": "Escalations",
    "denials": "Denials",
    "false_refusal": "False refusals",
    "missed_harm": "Missed harm",
}
_QUEUE_VERDICTS = {
    "open": (Verdict.ESCALATE, Verdict.DENY, Verdict.ABSTAIN),
    "escalations": (Verdict.ESCALATE,),
    "denials": (Verdict.DENY,),
}
_QUEUE_LENGTH = 20
_REVIEW_PERIOD = timedelta(days=90)


def review_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    name = call.query.get("queue", "")
    queue = name if name in QUEUES else "open"
    list_items = _unreviewed_items if queue in _QUEUE_VERDICTS else _labelled_items
    # Of several labels of a decision, the latest counts.
    latest = {label.decision_id: label.value for label in _recent_labels(call, REVIEW_VALUES)}
    return render_page(
        call,
        "review.html",
        title="Review",
        section="review",
        queues=list(QUEUES.items()),
        queue=queue,
        items=list_items(call, queue),
        done=queue not in _QUEUE_VERDICTS,
        tally={value: list(latest.values()).count(value) for value in REVIEW_VALUES},
    )


def _unreviewed_items(call: ApiCall, queue: str) -> list[dict[str, Any]]:
    service, tenant = call.service, call.chosen_tenant()
    now = service.clock()
    lately = set(period_counts(call, PERIODS["30d"]).verdicts)
    found: list[DecisionRecord] = []
    for verdict in lately.intersection(_QUEUE_VERDICTS[queue]):
        query = RecordFilter(tenant=tenant, verdict=verdict, unreviewed=True)
        found += find_newest(service.store, query, now, _QUEUE_LENGTH)
    newest_first = sorted(found, key=lambda one: one.decision_id, reverse=True)
    return [_review_item(call, record, None) for record in newest_first[:_QUEUE_LENGTH]]


def _labelled_items(call: ApiCall, value: str) -> list[dict[str, Any]]:
    latest = {label.decision_id: label for label in _recent_labels(call, (value,))}
    found = []
    for label in sorted(latest.values(), key=lambda one: one.created_at)[: -_QUEUE_LENGTH - 1 : -1]:
        record = call.service.store.get(label.decision_id, call.chosen_tenant())
        if record is not None:
            found.append(_review_item(call, record, label))
    return found


def _review_item(call: ApiCall, record: DecisionRecord, label: Label | None) -> dict[str, Any]:
    return {
        "row": decision_row(record, with_tenant=call.chosen_tenant() is None),
        "intent": request_intent(record),
        "summary": record.explanation.summary,
        "cause": str(find_cause(record)),
        "label": label and label._asdict(),
    }


def _recent_labels(call: ApiCall, values: tuple[str, ...]) -> Iterable[Label]:
    since = format_timestamp(call.service.clock() - _REVIEW_PERIOD)
    return call.service.store.find_labels(REVIEW, values, tenant=call.chosen_tenant(), since=since)
