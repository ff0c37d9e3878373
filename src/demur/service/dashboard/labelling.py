"""What people say about decisions, from forms: good, false refusal, missed harm.

A better answer is kept as a note that begins with `answer:`, which is how evals know it. A
remark beside it is a label of its own, before it: the latest label counts, and all are kept.
"""

from collections.abc import Iterator, Mapping

from demur.evals.remediate_edits import ANSWER
from demur.gate.clock import timestamp
from demur.service.call import Answer, Call
from demur.service.dashboard.forms import form_of
from demur.service.dashboard.frame import is_path
from demur.service.dashboard.rendering import segment
from demur.service.problem import invalid
from demur.service.routes.labels import REVIEW
from demur.service.routes.shown import record_named
from demur.store.rows import Label

__all__ = ["VALUES", "label"]

VALUES = ("good", "false_refusal", "missed_harm")
_LONGEST_NOTE = 2000


def label(call: Call) -> Answer:
    """Store a label, and redirect back."""
    given = form_of(call.body)
    value = given.get("value", "")
    if value not in VALUES:
        raise invalid(422, "there is no such label", "value", f"one of {', '.join(VALUES)}")
    notes = list(_notes(given))
    record = record_named(call)
    now = timestamp(call.service.clock())
    for note in notes:
        call.service.store.add_label(
            Label(record.decision_id, record.tenant, now, REVIEW, value, note, call.caller.name)
        )
    back = given.get("next", "")
    usual = f"/decisions/{segment(record.decision_id)}#labels"
    return Answer(b"", 303, headers={"location": back if is_path(back) else usual})


def _notes(given: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes of a form, at least one; a better answer is the last.

    Raises:
        ProblemError: One is too long, or contains NUL.
    """
    # Browsers send line breaks as two characters, but count them as one.
    remark, answer = (
        given.get(name, "").replace("\r\n", "\n").strip() for name in ("note", "answer")
    )
    kept = f"{ANSWER} {answer}" if answer else ""
    for name, note in (("note", remark), ("answer", kept)):
        if "\0" in note:
            raise invalid(422, "a note must not contain NUL", name)
        if len(note) > _LONGEST_NOTE:
            raise invalid(422, f"a note must not exceed {_LONGEST_NOTE} characters", name)
    if remark or not kept:
        yield remark
    if kept:
        yield kept
