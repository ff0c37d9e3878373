"""Differences between a record and the same record made again, field by field."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from demur.audit.recorded import holds_removed
from demur.model.record import DecisionRecord, Personal

__all__ = ["SEALED_FIELD", "Difference", "differences", "sealed_differences"]

# What the fields of the sealed half are called: their values may be personal.
SEALED_FIELD = "sealed."

# The halves have their own digests, and the engine may be another one.
_NOT_COMPARED = frozenset({"sealed", "sealed_digest", "chain", "determinism.engine_version"})
_COMPARED = tuple(f for f in DecisionRecord.__struct_fields__ if f not in _NOT_COMPARED)


class Difference(NamedTuple):
    """A field that came out differently. Both values are plain JSON."""

    field: str
    recorded: Any
    replayed: Any


def differences(recorded: DecisionRecord, replayed: DecisionRecord) -> Iterator[Difference]:
    """Yield where two records of one decision differ; of a part with fields, which of them."""
    for field in _COMPARED:
        yield from _between(field, getattr(recorded, field), getattr(replayed, field))


def sealed_differences(
    recorded: Personal, replayed: Personal, fields: Iterable[str]
) -> Iterator[Difference]:
    """Yield which of the fields differ between two sealed halves."""
    for field in fields:
        yield from _between(
            f"{SEALED_FIELD}{field}", getattr(recorded, field), getattr(replayed, field)
        )


def _between(field: str, recorded: Any, replayed: Any) -> Iterator[Difference]:
    # A text that redaction blotted out cannot be made again, and was not compared by policy.
    if recorded == replayed or field in _NOT_COMPARED or holds_removed(replayed):
        return
    if isinstance(recorded, msgspec.Struct) and type(recorded) is type(replayed):
        for name in recorded.__struct_fields__:
            here = f"{field}.{name}"
            yield from _between(here, getattr(recorded, name), getattr(replayed, name))
        return
    plain = (msgspec.json.decode(msgspec.json.encode(value)) for value in (recorded, replayed))
    yield Difference(field, *plain)
