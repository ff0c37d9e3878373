"""Counts of a stretch of time: what alert rules are held against, wherever it comes from."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from demur.observe.alerts.rule import SelectorField, DecisionSelector

__all__ = ["DecisionCounts", "CountSource", "add_counts", "unknown_counts"]


class DecisionCounts(NamedTuple):
    """Counts of decisions by kind. None means that the source does not know.

    `problem` says why the counts are incomplete; each number is then a lower bound.
    """

    decisions: int | None = 0
    codes: Mapping[str, int] = {}
    classes: Mapping[str, int] | None = {}
    verdicts: Mapping[str, int] | None = {}
    outputs: Mapping[str, int] | None = {}
    problem: str = ""

    def count_selected(self, selector: DecisionSelector) -> int | None:
        """Return the number of decisions that a selector matches, or None if unknown."""
        by: dict[SelectorField, Mapping[str, int] | None] = {
            SelectorField.CODE: self.codes,
            SelectorField.CLASS: self.classes,
            SelectorField.VERDICT: self.verdicts,
            SelectorField.OUTPUT: self.outputs,
        }
        counted = by[selector.field]
        return None if counted is None else counted.get(selector.value, 0)


class CountSource(Protocol):
    """A source of counts."""

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts from `since` on and before `until`."""


def unknown_counts(problem: str) -> DecisionCounts:
    """Return counts of which nothing is known."""
    return DecisionCounts(None, {}, None, None, None, problem)


def add_counts(parts: Iterable[DecisionCounts]) -> DecisionCounts:
    """Return the sum of counts; a number is unknown if one of the parts does not know it."""
    counts = list(parts)
    return DecisionCounts(
        _sum_known([one.decisions for one in counts]),
        _merge_counts([one.codes for one in counts]) or {},
        _merge_counts([one.classes for one in counts]),
        _merge_counts([one.verdicts for one in counts]),
        _merge_counts([one.outputs for one in counts]),
        "; ".join(dict.fromkeys(one.problem for one in counts if one.problem)),
    )


def _sum_known(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _merge_counts(parts: list[Mapping[str, int] | None]) -> Mapping[str, int] | None:
    merged: Counter[str] = Counter()
    for part in parts:
        if part is None:
            return None
        merged.update(part)
    return merged
