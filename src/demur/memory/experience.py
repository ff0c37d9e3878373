"""An experience: how an earlier action turned out, and the vector of its request."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

import msgspec

from demur.errors import InputError, one_line
from demur.memory.vector import Vector

__all__ = ["Experience", "ActionOutcome"]

_MIN_SEVERITY, _MAX_SEVERITY = 1, 5
_MAX_SUMMARY_LENGTH = 200


class ActionOutcome(StrEnum):
    """How an action turned out."""

    SUCCESS = "success"
    FAILURE = "failure"


class Experience(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled outcome. `severity` says how bad a failure was, from 1 to 5.

    `projection` names what made the vector; times are ISO 8601 with an offset.
    """

    memory_id: str
    outcome: ActionOutcome
    action_type: str
    projection: str
    vector: Vector
    created_at: str
    severity: int = 3
    note: str = ""
    expires_at: str | None = None

    def __post_init__(self) -> None:
        where = f"experience `{self.memory_id}`"
        if self.severity not in range(_MIN_SEVERITY, _MAX_SEVERITY + 1):
            problem = f"severity `{self.severity}` is not one of 1, 2, 3, 4, 5"
            raise InputError(problem, where=where)
        if self.expires_at is not None:
            _parse_time(self.expires_at, where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the experience in the columns of a database; other columns are ignored.

        Raises:
            InputError: The value of a column is invalid.
        """
        own = {name: fields[name] for name in cls.__struct_fields__ if name in fields}
        where = f"experience `{own.get('memory_id')}`"
        try:
            own["outcome"] = ActionOutcome(own["outcome"])
        except ValueError:
            problem = f"outcome `{own['outcome']}` is neither `success` nor `failure`"
            raise InputError(problem, where=where) from None
        try:
            own["vector"] = Vector.from_bytes(own["vector"])
        except InputError as error:
            raise InputError(error.problem, where=where, help=error.help) from None
        return cls(**own)

    @property
    def expiry(self) -> datetime | None:
        """When it expires; None: never."""
        return None if self.expires_at is None else _parse_time(self.expires_at, "expires_at")

    def is_expired(self, now: datetime) -> bool:
        """Return whether it has expired at `now`."""
        ends = self.expiry
        return ends is not None and ends <= now

    @property
    def summary(self) -> str:
        """A short line for people."""
        bad = f", severity {self.severity}" if self.outcome is ActionOutcome.FAILURE else ""
        note = f": {self.note}" if self.note else ""
        return one_line(f"{self.action_type}{bad}{note}"[:_MAX_SUMMARY_LENGTH])


def _parse_time(text: str, where: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InputError(
            f"`{text}` is no time with an offset", where=where, help="like `2026-07-01T00:00:00Z`"
        )
    return instant.astimezone(UTC)
