"""Counts of a stretch of time: what alert rules are held against, wherever it comes from."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from demur.observe.alerts.rule import Field, Selector

__all__ = ["Counts", "Source", "add_counts", "unknown_counts"]


class Counts(NamedTuple):
    """How many decisions there were, and of which kind. None is what the source cannot tell.

    `problem` says why they are not complete: then each number is the least that there were.
    """

    decisions: int | None = 0
    codes: Mapping[str, int] = {}
    classes: Mapping[str, int] | None = {}
    verdicts: Mapping[str, int] | None = {}
    outputs: Mapping[str, int] | None = {}
    problem: str = ""

    def number(self, selector: Selector) -> int | None:
        """Return how many decisions a selector chooses, or None if it cannot be told."""
        by: dict[Field, Mapping[str, int] | None] = {
            Field.CODE: self.codes,
            Field.CLASS: self.classes,
            Field.VERDICT: self.verdicts,
            Field.OUTPUT: self.outputs,
        }
        counted = by[selector.field]
        return None if counted is None else counted.get(selector.value, 0)


class Source(Protocol):
    """Where counts come from."""

    def between(self, since: datetime, until: datetime) -> Counts:
        """Return the counts from `since` on and before `until`."""


def unknown_counts(problem: str) -> Counts:
    """Return what is known where nothing is."""
    return Counts(None, {}, None, None, None, problem)


def add_counts(parts: Iterable[Counts]) -> Counts:
    """Return counts of several sources together. What one of them cannot tell, nobody can."""
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
