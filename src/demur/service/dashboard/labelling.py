"""What people say about decisions, from forms: good, false refusal, missed harm."""

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
    """Keep a label, and lead back."""
    given = form_of(call.body)
    value, note = given.get("value", ""), given.get("note", "").strip()
    if value not in VALUES:
        raise invalid(422, "there is no such label", "value", f"one of {', '.join(VALUES)}")
    if len(note) > _LONGEST_NOTE:
        raise invalid(422, f"a note has at most {_LONGEST_NOTE} characters", "note")
    record = record_named(call)
    now = timestamp(call.service.clock())
    call.service.store.add_label(
        Label(record.decision_id, record.tenant, now, REVIEW, value, note, call.caller.name)
    )
    back = given.get("next", "")
    usual = f"/decisions/{segment(record.decision_id)}#labels"
    return Answer(b"", 303, headers={"location": back if is_path(back) else usual})
