"""An experience: how an earlier action turned out, and the vector of its request.

Vectors are sparse and hold small integers. Integers add up to the same sum in any order and on any
machine, so a score that decides can be stored, replayed and compared digit by digit.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

import msgspec

from demur.errors import InputError, one_line

# By Cauchy-Schwarz no partial sum of a dot product exceeds this, whatever its order, and up
# to 2**24 a 32-bit float holds every whole number: matrix products in float32 are exact.
MAX_NORM = 2**24
MAX_SIZE = 2**16 - 1

_FORM_VERSION = 1
_HEADER = struct.Struct("<BH")
_SCORE_SCALE = 10**6


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """Integers at some places, zero elsewhere. Build one with `from_values` or `from_bytes`.

    `raw` is the stored form; `norm` is the exact sum of squares.
    """

    raw: bytes
    norm: int

    @classmethod
    def from_values(cls, values: Mapping[int, int]) -> Self:
        """Return the vector with these values at these places.

        Raises:
            InputError: A place or the norm is too large.
        """
        places = sorted(place for place, value in values.items() if value)
        numbers = [values[place] for place in places]
        if places and not 0 <= places[0] <= places[-1] < MAX_SIZE:
            raise InputError(f"a vector has places from 0 to {MAX_SIZE - 1}")
        norm = sum(number * number for number in numbers)
        if norm > MAX_NORM:
            problem = f"the squares of a vector sum to {norm}, more than {MAX_NORM}"
            raise InputError(problem, help="scale the values down")
        count = len(places)
        raw = struct.pack(f"<BH{count}H{count}h", _FORM_VERSION, count, *places, *numbers)
        return cls(raw=raw, norm=norm)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Return the vector that `to_bytes` wrote.

        Raises:
            InputError: The bytes are damaged or of another version.
        """
        try:
            version, count = _HEADER.unpack_from(raw)
            body = struct.unpack_from(f"<{count}H{count}h", raw, _HEADER.size)
        except struct.error:
            raise InputError("a stored vector is cut short") from None
        vector = cls.from_values(dict(zip(body[:count], body[count:], strict=True)))
        # Each vector has one form: ascending places, no zeros, no extra bytes.
        if version != _FORM_VERSION or vector.raw != raw:
            problem = "a stored vector is damaged or of another version"
            raise InputError(problem, help="project the request again")
        return vector

    def to_bytes(self) -> bytes:
        """Return the form to store; equal vectors have equal bytes."""
        return self.raw

    @property
    def size(self) -> int:
        """One more than the last place that is not zero."""
        last = self.place_bytes[-2:]
        return int.from_bytes(last, "little") + 1 if last else 0

    @property
    def place_bytes(self) -> bytes:
        """The places that are not zero, ascending: unsigned, 2 bytes each, little-endian."""
        return self.raw[_HEADER.size : (len(self.raw) + _HEADER.size) // 2]

    @property
    def value_bytes(self) -> bytes:
        """The values at those places: signed, 2 bytes each, little-endian."""
        return self.raw[(len(self.raw) + _HEADER.size) // 2 :]

    def items(self) -> Iterator[tuple[int, int]]:
        """Return the (place, value) pairs that are not zero, by place."""
        count = (len(self.raw) - _HEADER.size) // 4
        body = struct.unpack_from(f"<{count}H{count}h", self.raw, _HEADER.size)
        return zip(body[:count], body[count:], strict=True)

    def dot(self, other: Self) -> int:
        """Return the dot product, exactly."""
        values = dict(other.items())
        return sum(value * values.get(place, 0) for place, value in self.items())


def cosine_score(dot: int, one: int, other: int) -> float:
    """Return the cosine for a dot product and two norms, in [0, 1] with 6 decimals.

    It uses integers only; a negative or zero dot product scores 0.
    """
    if dot <= 0:
        return 0.0
    quadruple = 4 * dot * dot * _SCORE_SCALE**2 // (one * other)
    return (math.isqrt(quadruple) + 1) // 2 / _SCORE_SCALE


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
        help_text = "like `2026-07-01T00:00:00Z`"
        raise InputError(f"`{text}` is not a time with an offset", where=where, help=help_text)
    return instant.astimezone(UTC)
