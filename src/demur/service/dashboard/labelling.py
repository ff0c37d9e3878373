"""What people say about decisions, from forms: good, false refusal, missed harm.

A better answer is kept as a note that begins with `answer:`, which is how evals know it. A
remark beside it is a label of its own, before it: the latest label counts, and all are kept.
"""

from collections.abc import Iterator, Mapping

from demur.evals.remediate_edits import ANSWER_PREFIX
from demur.gate.clock import format_timestamp
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.forms import parse_form
from demur.service.dashboard.frame import is_local_path
from demur.service.dashboard.rendering import encode_segment
from demur.service.problem import invalid_request
from demur.service.routes.labels import REVIEW
from demur.service.routes.shown import require_record
from demur.store.rows import Label

__all__ = ["REVIEW_VALUES", "label_decision"]

REVIEW_VALUES = ("good", "false_refusal", "missed_harm")
_MAX_NOTE_LENGTH = 2000


def label_decision(call: ApiCall) -> ApiAnswer:
    """Store a label, and redirect back."""
    given = parse_form(call.body)
    value = given.get("value", "")
    if value not in REVIEW_VALUES:
        raise invalid_request(
            422, "there is no such label", "value", f"one of {', '.join(REVIEW_VALUES)}"
        )
    notes = list(_notes_from_form(given))
    record = require_record(call)
    now = format_timestamp(call.service.clock())
    for note in notes:
        call.service.store.add_label(
            Label(record.decision_id, record.tenant, now, REVIEW, value, note, call.caller.name)
        )
    back = given.get("next", "")
    usual = f"/decisions/{encode_segment(record.decision_id)}#labels"
    return ApiAnswer(b"", 303, headers={"location": back if is_local_path(back) else usual})


def _notes_from_form(given: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes of a form, at least one; a better answer is the last.

    Raises:
        ProblemError: One is too long, or contains NUL.
    """
    # Browsers send line breaks as two characters, but count them as one.
    remark, answer = (
        given.get(name, "").replace("\r\n", "\n").strip() for name in ("note", "answer")
    )
    kept = f"{ANSWER_PREFIX} {answer}" if answer else ""
    for name, note in (("note", remark), ("answer", kept)):
        if "\0" in note:
            raise invalid_request(422, "a note must not contain NUL", name)
        if len(note) > _MAX_NOTE_LENGTH:
            raise invalid_request(
                422, f"a note must not exceed {_MAX_NOTE_LENGTH} characters", name
            )
    if remark or not kept:
        yield remark
    if kept:
        yield kept
