"""Counts of a stretch of time: what alert rules are held against, wherever it comes from."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from demur.observe.alerts.rule import Field, Selector

__all__ = ["Counts", "Source", "add_counts", "unknown_counts"]


class Counts(NamedTuple):
    """Counts of decisions by kind. None means that the source does not know.

    `problem` says why the counts are incomplete; each number is then a lower bound.
    """

    decisions: int | None = 0
    codes: Mapping[str, int] = {}
    classes: Mapping[str, int] | None = {}
    verdicts: Mapping[str, int] | None = {}
    outputs: Mapping[str, int] | None = {}
    problem: str = ""

    def number(self, selector: Selector) -> int | None:
        """Return the number of decisions that a selector matches, or None if unknown."""
        by: dict[Field, Mapping[str, int] | None] = {
            Field.CODE: self.codes,
            Field.CLASS: self.classes,
            Field.VERDICT: self.verdicts,
            Field.OUTPUT: self.outputs,
        }
        counted = by[selector.field]
        return None if counted is None else counted.get(selector.value, 0)


class Source(Protocol):
    """A source of counts."""

    def between(self, since: datetime, until: datetime) -> Counts:
        """Return the counts from `since` on and before `until`."""


def unknown_counts(problem: str) -> Counts:
    """Return counts of which nothing is known."""
    return Counts(None, {}, None, None, None, problem)


def add_counts(parts: Iterable[Counts]) -> Counts:
    """Return the sum of counts; a number is unknown if one of the parts does not know it."""
    counts = list(parts)
    return Counts(
        _total([one.decisions for one in counts]),
        _merged([one.codes for one in counts]) or {},
        _merged([one.classes for one in counts]),
        _merged([one.verdicts for one in counts]),
        _merged([one.outputs for one in counts]),
        "; ".join(dict.fromkeys(one.problem for one in counts if one.problem)),
    )


def _total(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _merged(parts: list[Mapping[str, int] | None]) -> Mapping[str, int] | None:
    merged: Counter[str] = Counter()
    for part in parts:
        if part is None:
            return None
        merged.update(part)
    return merged
