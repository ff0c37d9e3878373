"""Learning: turn a decision and its outcome into an experience."""

from datetime import datetime

from demur.canonical import canonical_bytes
from demur.errors import InputError, InputTypeError
from demur.gate.clock import format_timestamp
from demur.memory.experience import ActionOutcome
from demur.memory.projection import Projection
from demur.model.record import DecisionRecord
from demur.store.rows import ExperienceRow, Label

__all__ = ["DEFAULT_SEVERITY", "build_experience", "build_label"]

DEFAULT_SEVERITY = 3
_MAX_SEVERITY = 5
_MAX_NOTE_LENGTH = 2000


def build_experience(
    record: DecisionRecord,
    outcome: ActionOutcome | str,
    *,
    severity: int,
    note: str,
    projection: Projection,
    memory_id: str,
    now: datetime,
    expires_at: datetime | None,
) -> ExperienceRow:
    """Return the experience for a record and its outcome.

    Raises:
        InputError: The outcome or the severity is unknown, or the record was erased.
    """
    personal = record.personal
    if personal is None:
        raise InputError(
            f"decision `{record.decision_id}` was erased: nothing can be learned from it"
        )
    if severity.__class__ is not int or not 1 <= severity <= _MAX_SEVERITY:
        raise InputError(f"a severity is a number from 1 to {_MAX_SEVERITY}, not `{severity}`")
    _check_text("a note", note)
    if len(note) > _MAX_NOTE_LENGTH:
        raise InputError(f"a note has at most {_MAX_NOTE_LENGTH} characters, not {len(note)}")
    _check_expiry(expires_at, now)
    return ExperienceRow(
        memory_id=memory_id,
        tenant=record.tenant,
        decision_id=record.decision_id,
        outcome=_parse_outcome(outcome),
        severity=severity,
        note=note,
        action_type=record.action_type,
        projection=projection.name,
        vector=projection.project(personal.request).to_bytes(),
        created_at=format_timestamp(now),
        expires_at=None if expires_at is None else format_timestamp(expires_at),
    )


def build_label(experience: ExperienceRow, reviewer: str) -> Label:
    """Return the label of an experience; it stays when the experience is forgotten."""
    _check_text("the reviewer", reviewer)
    return Label(
        decision_id=experience.decision_id,
        tenant=experience.tenant,
        created_at=experience.created_at,
        kind="outcome",
        value=experience.outcome,
        note=experience.note,
        by=reviewer,
    )


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise InputTypeError.wrong_type(what, "a string", text)
    canonical_bytes(text)


def _check_expiry(expires_at: object, now: datetime) -> None:
    if expires_at is None:
        return
    if not isinstance(expires_at, datetime):
        raise InputTypeError.wrong_type("`expires_at`", "a datetime", expires_at)
    if expires_at.tzinfo is None:
        raise InputError("`expires_at` needs a time zone", help="like datetime.now(UTC)")
    if expires_at <= now:
        raise InputError("`expires_at` must lie in the future")


def _parse_outcome(outcome: str) -> ActionOutcome:
    try:
        return ActionOutcome(str(outcome).lower())
    except ValueError:
        known = " or ".join(ActionOutcome)
        raise InputError(f"unknown outcome `{outcome}`", help=f"{known}") from None
