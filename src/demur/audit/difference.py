"""Differences between a record and its replay, field by field."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from demur.audit.recorded import holds_removed
from demur.model.record import DecisionRecord, Personal

__all__ = ["SEALED_FIELD", "FieldDifference", "record_differences", "sealed_differences"]

# The prefix of fields of the sealed half, whose values may be personal.
SEALED_FIELD = "sealed."

# The halves have their own digests, and the engine version may differ.
_NOT_COMPARED = frozenset({"sealed", "sealed_digest", "chain", "determinism.engine_version"})
_COMPARED = tuple(f for f in DecisionRecord.__struct_fields__ if f not in _NOT_COMPARED)


class FieldDifference(NamedTuple):
    """A field that differs. Both values are plain JSON."""

    field: str
    recorded: Any
    replayed: Any


def record_differences(
    recorded: DecisionRecord, replayed: DecisionRecord
) -> Iterator[FieldDifference]:
    """Yield the fields in which two records of one decision differ, nested ones included."""
    for field in _COMPARED:
        yield from _field_differences(field, getattr(recorded, field), getattr(replayed, field))


def sealed_differences(
    recorded: Personal, replayed: Personal, fields: Iterable[str]
) -> Iterator[FieldDifference]:
    """Yield which of the fields differ between two sealed halves."""
    for field in fields:
        yield from _field_differences(
            f"{SEALED_FIELD}{field}", getattr(recorded, field), getattr(replayed, field)
        )


def _field_differences(field: str, recorded: Any, replayed: Any) -> Iterator[FieldDifference]:
    # A redacted text cannot be rebuilt, and the policy did not compare it.
    if recorded == replayed or field in _NOT_COMPARED or holds_removed(replayed):
        return
    if isinstance(recorded, msgspec.Struct) and type(recorded) is type(replayed):
        for name in recorded.__struct_fields__:
            here = f"{field}.{name}"
            yield from _field_differences(here, getattr(recorded, name), getattr(replayed, name))
        return
    plain = (msgspec.json.decode(msgspec.json.encode(value)) for value in (recorded, replayed))
    yield FieldDifference(field, *plain)
