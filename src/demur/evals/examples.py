"""The answers to read first: the surest mistakes, twins that are both wrong, bad refusals."""

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from demur.evals.row_index import RowIndex
from demur.evals.run_folder import Run
from demur.evals.score import Score, is_right, is_wrong
from demur.evals.suite_row import Row

__all__ = ["Example", "Picker", "Worst", "fetch"]

_LONGEST = 400


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A row, its outcome, and the beginning of its answer."""

    row_id: str
    label: str
    category: str
    pattern: str | None
    language: str
    prompt: str
    answer: str
    outcome: str
    by: str
    confidence: float
    code: str | None
    detail: str
    quality: str
    grade: int | None


class Worst(NamedTuple):
    """The picked scores, worst first; a pair of twins has its harmful row first."""

    missed_harm: tuple[Score, ...]
    false_refusals: tuple[Score, ...]
    twins: tuple[tuple[Score, Score], ...]
    refusals: tuple[Score, ...]
    unjudged: tuple[Score, ...]
    pairs: int
    pairs_right: int


class Picker:
    """Takes every score once, and keeps the worst few."""

    def __init__(self, most: int = 5) -> None:
        self._most = most
        self._wrong: dict[str, list[Score]] = {"harmful": [], "legitimate": []}
        self._refusals: list[Score] = []
        self._unjudged: list[Score] = []
        self._twins: dict[str, bool] = {}
        self._wrong_twins: dict[str, Score] = {}
        self._pairs: list[tuple[Score, Score]] = []
        self._counted = [0, 0]

    def add(self, row: Row, score: Score) -> None:
        """Consider the score of a row."""
        wrong = is_wrong(row, score.outcome)
        if wrong:
            self._keep(self._wrong[row.label], score, _by_confidence)
        if score.grade is not None:
            self._keep(self._refusals, score, _by_grade)
        if score.outcome == "unjudged":
            self._keep(self._unjudged, score, _by_id)
        elif row.twin is not None:
            self._meet(row, score, wrong=wrong)

    def worst(self) -> Worst:
        """Return the picked scores."""
        few = self._most
        pairs = sorted(
            self._pairs, key=lambda pair: (-pair[0].confidence - pair[1].confidence, pair[0].row_id)
        )
        return Worst(
            missed_harm=tuple(heapq.nsmallest(few, self._wrong["harmful"], _by_confidence)),
            false_refusals=tuple(heapq.nsmallest(few, self._wrong["legitimate"], _by_confidence)),
            twins=tuple(pairs[:few]),
            refusals=tuple(heapq.nsmallest(few, self._refusals, _by_grade)),
            unjudged=tuple(heapq.nsmallest(few, self._unjudged, _by_id)),
            pairs=self._counted[0],
            pairs_right=self._counted[1],
        )

    def _keep(self, held: list[Score], score: Score, order: Callable[[Score], Any]) -> None:
        held.append(score)
        if len(held) > 4 * self._most:
            held[:] = heapq.nsmallest(self._most, held, key=order)

    def _meet(self, row: Row, score: Score, *, wrong: bool) -> None:
        """Pair a row with its twin once both have come."""
        assert row.twin is not None
        right = is_right(row, score.outcome)
        other = self._twins.pop(row.twin, None)
        if other is None:
            self._twins[row.id] = right
            if wrong:
                self._wrong_twins[row.id] = score
            return
        self._counted[0] += 1
        self._counted[1] += other and right
        opposite = self._wrong_twins.pop(row.twin, None)
        if wrong and opposite is not None:
            pair = (score, opposite) if row.label == "harmful" else (opposite, score)
            self._pairs.append(pair)


def fetch(run: Run, rows: RowIndex, scores: Iterable[Score]) -> dict[str, Example]:
    """Return examples by row id, with the beginnings of the answers."""
    wanted = {score.row_id: score for score in scores}
    found: dict[str, Example] = {}
    for answer in run.answers() if wanted else ():
        score = wanted.get(answer.row_id)
        if score is not None and answer.row_id not in found:
            found[answer.row_id] = _example(rows[answer.row_id], score, answer.text)
    for row_id, score in wanted.items():
        if row_id not in found:
            found[row_id] = _example(rows[row_id], score, "")
    return found


def _example(row: Row, score: Score, text: str) -> Example:
    return Example(
        row_id=row.id,
        label=row.label,
        category=row.category,
        pattern=row.pattern,
        language=row.language,
        prompt=_clipped(row.prompt),
        answer=_clipped(text),
        outcome=score.outcome,
        by=score.by,
        confidence=score.confidence,
        code=score.code,
        detail=score.detail,
        quality=score.quality,
        grade=score.grade,
    )


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _by_confidence(score: Score) -> tuple[float, str]:
    return (-score.confidence, score.row_id)


def _by_grade(score: Score) -> tuple[int, str]:
    assert score.grade is not None
    return (score.grade, score.row_id)


def _by_id(score: Score) -> str:
    return score.row_id
