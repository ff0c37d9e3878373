"""Learning: turn a decision and its outcome into an experience."""

from datetime import datetime

from demur.canonical import canonical_bytes
from demur.errors import InputError, InputTypeError
from demur.gate.clock import timestamp
from demur.memory.experience import Outcome
from demur.memory.projection import Projection
from demur.model.record import DecisionRecord
from demur.store.rows import Experience, Label

__all__ = ["MIDDLE_SEVERITY", "experience_of", "label_of"]

MIDDLE_SEVERITY = 3
_WORST = 5
_LONGEST_NOTE = 2000


def experience_of(
    record: DecisionRecord,
    outcome: Outcome | str,
    *,
    severity: int,
    note: str,
    projection: Projection,
    memory_id: str,
    now: datetime,
    expires_at: datetime | None,
) -> Experience:
    """Return the experience for a record and its outcome.

    Raises:
        InputError: The outcome or the severity is unknown, or the record was erased.
    """
    personal = record.personal
    if personal is None:
        raise InputError(
            f"decision `{record.decision_id}` was erased: nothing can be learned from it"
        )
    if severity.__class__ is not int or not 1 <= severity <= _WORST:
        raise InputError(f"a severity is a number from 1 to {_WORST}, not `{severity}`")
    _check_text("a note", note)
    if len(note) > _LONGEST_NOTE:
        raise InputError(f"a note has at most {_LONGEST_NOTE} characters, not {len(note)}")
    _check_end(expires_at, now)
    return Experience(
        memory_id=memory_id,
        tenant=record.tenant,
        decision_id=record.decision_id,
        outcome=_outcome(outcome),
        severity=severity,
        note=note,
        action_type=record.action_type,
        projection=projection.name,
        vector=projection.project(personal.request).to_bytes(),
        created_at=timestamp(now),
        expires_at=None if expires_at is None else timestamp(expires_at),
    )


def label_of(experience: Experience, by: str) -> Label:
    """Return the label of an experience; it stays when the experience is forgotten."""
    _check_text("the reviewer", by)
    return Label(
        decision_id=experience.decision_id,
        tenant=experience.tenant,
        created_at=experience.created_at,
        kind="outcome",
        value=experience.outcome,
        note=experience.note,
        by=by,
    )


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise InputTypeError.expected(what, "a string", text)
    canonical_bytes(text)


def _check_end(expires_at: object, now: datetime) -> None:
    if expires_at is None:
        return
    if not isinstance(expires_at, datetime):
        raise InputTypeError.expected("`expires_at`", "a datetime", expires_at)
    if expires_at.tzinfo is None:
        raise InputError("`expires_at` needs a time zone", help="like datetime.now(UTC)")
    if expires_at <= now:
        raise InputError("`expires_at` must lie in the future")


def _outcome(outcome: str) -> Outcome:
    try:
        return Outcome(str(outcome).lower())
    except ValueError:
        known = " or ".join(Outcome)
        raise InputError(f"unknown outcome `{outcome}`", help=f"{known}") from None
