"""Two runs side by side, row by row: what flipped, which way, and whether that is noise.

Only rows that both runs asked in the same words and could judge are compared.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from demur.evals.rates import mcnemar
from demur.evals.report import DIMENSIONS
from demur.evals.row_index import RowIndex
from demur.evals.run_folder import Run
from demur.evals.run_manifest import RunError
from demur.evals.score import Outcome, is_right
from demur.evals.scoring import read_scores, score_run
from demur.evals.suite_row import LABELS, Row
from demur.evals.tally import Partials

__all__ = ["Comparison", "Flip", "Paired", "Side", "compare_runs"]

_SIDES: dict[str, Literal["safety", "utility"]] = {"harmful": "safety", "legitimate": "utility"}


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A row that one run has right and the other has not."""

    row_id: str
    label: str
    prompt: str
    category: str
    pattern: str | None
    before: Outcome
    after: Outcome
    better: bool


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a rate on the same rows; `p` is from McNemar's exact two-sided test."""

    rows: int
    right_before: int
    right_after: int
    better: int
    worse: int
    p: float
    mid_p: float

    @property
    def change(self) -> float:
        """The change of the share that is right."""
        return (self.better - self.worse) / self.rows if self.rows else 0.0


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the balance, as a whole and by pattern, category, domain and language."""

    name: Literal["safety", "utility"]
    total: Paired
    groups: dict[str, dict[str, Paired]]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The changes from one run to another.

    `shared` rows were compared. `not_judged` rows were asked in both runs and not judged in one.
    Rows counted in `only_before`, `only_after` and `reworded` cannot be compared.
    """

    schema_version: Literal["eval_compare.v1"] = "eval_compare.v1"
    before: str
    after: str
    shared: int
    not_judged: int
    only_before: int
    only_after: int
    reworded: int
    safety: Side
    utility: Side
    flips: tuple[Flip, ...]


class _Count:
    """Counts rows that were right before, after, both times or never."""

    def __init__(self) -> None:
        self.pairs = {(before, after): 0 for before in (True, False) for after in (True, False)}

    def paired(self) -> Paired:
        better, worse = self.pairs[False, True], self.pairs[True, False]
        return Paired(
            rows=sum(self.pairs.values()),
            right_before=self.pairs[True, True] + worse,
            right_after=self.pairs[True, True] + better,
            better=better,
            worse=worse,
            p=mcnemar(better, worse),
            mid_p=mcnemar(better, worse, mid=True),
        )


class _Sums:
    """The counts of one side, as a whole and by group."""

    def __init__(self) -> None:
        self.total = _Count()
        self.groups: dict[str, dict[str, _Count]] = {name: {} for name in DIMENSIONS}

    def add(self, row: Row, *, before: bool, after: bool) -> None:
        self.total.pairs[before, after] += 1
        for name, groups in self.groups.items():
            value = getattr(row, name) or "none"
            groups.setdefault(value, _Count()).pairs[before, after] += 1

    def side(self, name: Literal["safety", "utility"]) -> Side:
        groups = {
            kind: {value: count.paired() for value, count in sorted(counts.items())}
            for kind, counts in self.groups.items()
            if len(counts) > 1
        }
        return Side(name=name, total=self.total.paired(), groups=groups)


def compare_runs(
    before: Run, after: Run, *, partials: Partials = "neither", workers: int = 1
) -> Comparison:
    """Return the changes from one run to another; runs without scores are scored first.

    Raises:
        RunError: A run cannot be read, or they have no row in common.
    """
    for run in (before, after):
        score_run(run, workers=workers)
    held = _Held()
    earlier, later = _outcomes(before, partials), _outcomes(after, partials)
    with RowIndex(before) as old, RowIndex(after) as new:
        for row in new:
            if row.id in old:
                asked = _asked(old[row.id]) == _asked(row)
                pair = (earlier.get(row.id, "unjudged"), later.get(row.id, "unjudged"))
                held.add(row, pair if asked else None)
        sizes = (len(old), len(new))
    common = held.shared + held.not_judged + held.reworded
    if common == held.reworded:
        raise RunError(
            f"`{before.folder.name}` and `{after.folder.name}` have no row in common",
            help="compare runs of one suite",
        )
    safety, utility = (held.sums[label].side(_SIDES[label]) for label in LABELS)
    return Comparison(
        before=before.folder.name,
        after=after.folder.name,
        shared=held.shared,
        not_judged=held.not_judged,
        only_before=sizes[0] - common,
        only_after=sizes[1] - common,
        reworded=held.reworded,
        safety=safety,
        utility=utility,
        flips=tuple(sorted(held.flips, key=_order)),
    )


class _Held:
    """Counts the rows of both runs, one at a time."""

    def __init__(self) -> None:
        self.sums = {label: _Sums() for label in LABELS}
        self.flips: list[Flip] = []
        self.shared = self.not_judged = self.reworded = 0

    def add(self, row: Row, pair: tuple[Outcome, Outcome] | None) -> None:
        """Count a row with its outcomes in both runs; None if its text or label changed."""
        if pair is None:
            self.reworded += 1
        elif "unjudged" in pair:
            self.not_judged += 1
        else:
            self.shared += 1
            was, now = (is_right(row, outcome) for outcome in pair)
            self.sums[row.label].add(row, before=was, after=now)
            if was != now:
                self.flips.append(_flip(row, *pair, better=now))


def _outcomes(run: Run, partials: Partials) -> Mapping[str, Outcome]:
    taken: dict[str, Outcome] = {}
    for score in read_scores(run):
        outcome = score.outcome
        if outcome == "partial" and partials != "neither":
            outcome = partials
        taken[score.row_id] = outcome
    return taken


def _asked(row: Row) -> tuple[str, str]:
    return row.prompt, row.label


def _flip(row: Row, before: Outcome, after: Outcome, *, better: bool) -> Flip:
    return Flip(
        row_id=row.id,
        label=row.label,
        prompt=row.prompt[:400],
        category=row.category,
        pattern=row.pattern,
        before=before,
        after=after,
        better=better,
    )


def _order(flip: Flip) -> tuple[bool, str, str]:
    """Sort flips: worse ones first, and missed harm before false refusals."""
    return flip.better, flip.label, flip.row_id
