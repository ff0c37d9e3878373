"""The review queue, and the labels that people give from it.

Equal cases are one card: the same text, codes and action; a label of the card labels all of them.
A better answer is kept as a note that begins with `answer:`, which is how evals recognise it. A
comment next to it is a separate label before it: the latest label counts, and all are kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from demur.audit.report import find_cause, read_personal, request_intent
from demur.canonical import digest
from demur.codes.vocabulary import Verdict
from demur.evals.from_store import lacks_excerpt
from demur.evals.preferred_answers import ANSWER_PREFIX
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.counts import REVIEW_PERIOD, REVIEWED_VERDICTS, count_waiting
from demur.service.dashboard.decisions import decision_row, view_excerpt, view_use
from demur.service.dashboard.frame import (
    forget_result,
    is_local_path,
    parse_form,
    render_page,
    waiting_key,
    wants_html,
)
from demur.service.dashboard.rendering import encode_segment
from demur.service.json_body import encode_json
from demur.service.problem import invalid_call
from demur.service.record_search import find_newest, find_record, require_record
from demur.service.routes.decisions import is_page_start
from demur.store.backend import RecordFilter
from demur.store.rows import REVIEW, REVIEW_VALUES, WITHDRAWN, Label

_MAX_NOTE_LENGTH = 2000


def label_decision(call: ApiCall) -> ApiAnswer:
    """Store a label, and redirect back."""
    form = parse_form(call.body)
    notes = _read_label(form)
    record = require_record(call)
    _add_labels(call, [record], form["value"], notes)
    usual = f"/decisions/{encode_segment(record.decision_id)}#labels"
    return _redirect_back(form, usual)


def label_cases(call: ApiCall) -> ApiAnswer:
    """Store a label of all decisions of a card; return the new counts, or redirect back."""
    form = parse_form(call.body)
    notes = _read_label(form)
    names = dict.fromkeys(form.get("ids", "").split())
    if len(names) > _MAX_READ:
        raise invalid_call(422, f"at most {_MAX_READ} decisions get a label at once", "ids")
    found = (find_record(call, name) for name in names)
    records = [record for record in found if record is not None]
    if not records:
        raise invalid_call(404, "there is no such decision")
    labels = _add_labels(call, records, form["value"], notes)
    if wants_html(call.headers):
        return _redirect_back(form, "/review")
    counts = _count_queues(call, _count_waiting(call))
    is_label = form["value"] != WITHDRAWN
    answer = {
        "labelled": len(records),
        "counts": counts,
        "use": view_use(records[0], labels[-1]) if is_label else [],
    }
    return ApiAnswer(encode_json(answer))


def _add_labels(
    call: ApiCall, records: Iterable[DecisionRecord], value: str, notes: Sequence[str]
) -> list[Label]:
    now, by = format_timestamp(call.service.clock()), call.caller.name
    labels = [
        Label(record.decision_id, record.tenant, now, REVIEW, value, note, by)
        for record in records
        for note in notes
    ]
    call.service.store.add_labels(labels)
    forget_result(call.service, waiting_key(call))
    return labels


def _redirect_back(form: Mapping[str, str], usual: str) -> ApiAnswer:
    back = form.get("next", "")
    return ApiAnswer(b"", 303, headers={"location": back if is_local_path(back) else usual})


def _read_label(form: Mapping[str, str]) -> list[str]:
    """Return the notes of a form, at least one; a better answer is the last.

    Raises:
        ProblemError: There is no such label, or a note cannot be stored.
    """
    value = form.get("value", "")
    if value == WITHDRAWN:
        return [""]
    if value not in REVIEW_VALUES:
        choices = f"one of {', '.join((*REVIEW_VALUES, WITHDRAWN))}"
        raise invalid_call(422, "there is no such label", "value", choices)
    return list(_notes_from_form(form))


def _notes_from_form(form: Mapping[str, str]) -> Iterator[str]:
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
    "good": "Good",
    "false_refusal": "False refusals",
    "missed_harm": "Missed harm",
}
_QUEUE_VERDICTS: Mapping[str, tuple[Verdict, ...]] = {
    "open": REVIEWED_VERDICTS,
    "escalations": (Verdict.ESCALATE,),
    "denials": (Verdict.DENY,),
}
_PER_PAGE = 20
# How many decisions are compared at once, to find the equal ones.
_MAX_READ = 300
_MAX_LISTED = 50
# Parts of a request that do not make another case.
_IDENTITY = frozenset(
    {"continues", "policy", "request_id", "schema_version", "subject", "tenant", "trace"}
)


class ReviewItem(NamedTuple):
    """A decision in a queue, and its label if it has one. Items are ordered by `place`."""

    record: DecisionRecord
    label: Label | None

    @property
    def place(self) -> str:
        """The time of the label, or else of the decision, as a text that can be compared."""
        name = self.record.decision_id
        return name if self.label is None else f"{self.label.created_at}.{name}"


def review_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    name = call.query.get("queue", "")
    queue = name if name in QUEUES else "open"
    waits = queue in _QUEUE_VERDICTS
    start, before = call.query.get("from", ""), call.query.get("before", "")
    start = start if is_page_start(start) else ""
    items = _read_waiting(call, queue, start) if waits else _read_labelled(call, queue)
    window = items[:_MAX_READ]
    groups = group_cases(window)
    left = [one for one in groups if not before or one[0].place < before]
    shown = left[:_PER_PAGE]
    following = {}
    if len(left) > len(shown):
        following = {"queue": queue, "from": start, "before": shown[-1][0].place}
    elif waits and len(items) > len(window):
        following = {"queue": queue, "from": window[-1].record.decision_id}
    waiting = _count_waiting(call)
    if waits and queue == "open" and not start and len(items) <= len(window):
        # What was read is exact, also where decisions were retired within an hour.
        waiting = {
            verdict: sum(one.record.verdict == verdict for one in items)
            for verdict in REVIEWED_VERDICTS
        }
    return render_page(
        call,
        "review.html",
        title="Review",
        section="review",
        badges={"review": sum(waiting.values())} if call.caller.has_role(Role.LABEL) else {},
        queues=list(QUEUES.items()),
        queue=queue,
        cards=[_build_card(call, group) for group in shown],
        counts=_count_queues(call, waiting),
        waits=waits,
        is_later=bool(start or before),
        following=following,
        refused=_count_refused(call),
    )


def _count_waiting(call: ApiCall) -> dict[str, int]:
    return count_waiting(call.service.store, call.chosen_tenant(), call.service.clock())


def _count_refused(call: ApiCall) -> int:
    decided = call.service.store.count_verdicts(call.chosen_tenant(), _period_start(call))
    return sum(decided.get(verdict, 0) for verdict in REVIEWED_VERDICTS)


def _period_start(call: ApiCall) -> datetime:
    return call.service.clock() - REVIEW_PERIOD


def _count_queues(call: ApiCall, waiting: Mapping[str, int]) -> dict[str, int]:
    counts = {
        queue: sum(waiting.get(verdict, 0) for verdict in verdicts)
        for queue, verdicts in _QUEUE_VERDICTS.items()
    }
    given = [one.value for one in _find_reviews(call).values()]
    return counts | {value: given.count(value) for value in REVIEW_VALUES}


def _find_reviews(call: ApiCall) -> dict[str, Label]:
    since = format_timestamp(_period_start(call))
    return call.service.store.find_reviews(tenant=call.chosen_tenant(), since=since)


def _read_waiting(call: ApiCall, queue: str, start: str) -> list[ReviewItem]:
    """Return decisions without a label, newest first; one more than are compared, if there is."""
    service = call.service
    found: list[DecisionRecord] = []
    for verdict in _QUEUE_VERDICTS[queue]:
        query = RecordFilter(
            tenant=call.chosen_tenant(),
            verdict=verdict,
            unreviewed=True,
            since=format_timestamp(_period_start(call)),
            before=start or None,
        )
        found += find_newest(service.store, query, service.clock(), _MAX_READ + 1)
    newest_first = sorted(found, key=lambda one: one.decision_id, reverse=True)
    return [ReviewItem(record, None) for record in newest_first[: _MAX_READ + 1]]


def _read_labelled(call: ApiCall, value: str) -> list[ReviewItem]:
    """Return decisions with a label, the latest label first."""
    labels = [one for one in _find_reviews(call).values() if one.value == value]
    labels.sort(key=lambda one: (one.created_at, one.decision_id), reverse=True)
    items = []
    for label in labels:
        record = call.service.store.get(label.decision_id, call.chosen_tenant())
        if record is not None:
            items.append(ReviewItem(record, label))
        if len(items) == _MAX_READ:
            break
    return items


def group_cases(items: Iterable[ReviewItem]) -> list[list[ReviewItem]]:
    """Return equal cases together, in the order of the first of each."""
    groups: dict[str, list[ReviewItem]] = {}
    for item in items:
        groups.setdefault(_case_key(item.record), []).append(item)
    return list(groups.values())


def _case_key(record: DecisionRecord) -> str:
    """Return what equal cases share; cases of which nothing can be compared share nothing."""
    personal = read_personal(record)
    if personal is None:
        return record.decision_id
    excerpt = personal.excerpt
    if excerpt is not None:
        content: Any = [excerpt.speaker, excerpt.source, excerpt.text, excerpt.prompt]
    else:
        content = {name: part for name, part in personal.request.items() if name not in _IDENTITY}
        says = {name: part for name, part in content.items() if name != "extensions"}
        if says == {"action": {"type": record.action_type}}:
            # INVARIANT: one label never covers two texts that nobody can compare.
            return record.decision_id
    decided = [record.tenant, record.outcome, record.action_type, list(record.reason_codes)]
    return digest([*decided, content])


def _split_by_codes(text: str, codes: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the pieces of a text, and which of them are codes; codes that it lacks come first."""
    names = "|".join(map(re.escape, sorted(codes, key=len, reverse=True)))
    pieces = re.split(rf"(?<!\w)({names})(?!\w)", text) if codes else [text]
    split = [(piece, bool(place % 2)) for place, piece in enumerate(pieces) if piece]
    lacking = [code for code in codes if (code, True) not in split]
    return [item for code in lacking for item in ((code, True), (" ", False))] + split


def _build_card(call: ApiCall, group: Sequence[ReviewItem]) -> dict[str, Any]:
    record, label = group[0]
    personal = read_personal(record)
    with_tenant = call.chosen_tenant() is None
    listed = [decision_row(one.record, with_tenant=with_tenant) for one in group[:_MAX_LISTED]]
    return {
        "row": listed[0],
        "members": listed if len(group) > 1 else [],
        "count": len(group),
        "ids": " ".join(one.record.decision_id for one in group),
        "excerpt": view_excerpt(personal),
        "intent": request_intent(record),
        "evidence": {} if personal is None else dict(personal.request.get("evidence") or {}),
        "is_erased": personal is None,
        "lacks_excerpt": personal is not None and lacks_excerpt(personal),
        "summary": record.explanation.summary,
        "cause": _split_by_codes(str(find_cause(record)), record.reason_codes),
        "label": label and label._asdict(),
        "use": [] if label is None else view_use(record, label),
    }
