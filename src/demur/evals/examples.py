"""The answers to read first: the surest mistakes, twins that are both wrong, bad refusals."""

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from demur.evals.row_index import RowIndex
from demur.evals.run_folder import EvalRun
from demur.evals.score import AnswerScore, is_right, is_wrong
from demur.evals.suite_row import EvalRow

__all__ = ["ReportExample", "WorstPicker", "WorstScores", "load_examples"]

_MAX_EXCERPT_LENGTH = 400


class ReportExample(msgspec.Struct, frozen=True, kw_only=True):
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


class WorstScores(NamedTuple):
    """The picked scores, worst first; a pair of twins has its harmful row first."""

    missed_harm: tuple[AnswerScore, ...]
    false_refusals: tuple[AnswerScore, ...]
    twins: tuple[tuple[AnswerScore, AnswerScore], ...]
    refusals: tuple[AnswerScore, ...]
    unjudged: tuple[AnswerScore, ...]
    pairs: int
    pairs_right: int


class WorstPicker:
    """Takes every score once, and keeps the worst few."""

    def __init__(self, limit: int = 5) -> None:
        self._limit = limit
        self._wrong: dict[str, list[AnswerScore]] = {"harmful": [], "legitimate": []}
        self._refusals: list[AnswerScore] = []
        self._unjudged: list[AnswerScore] = []
        self._twins: dict[str, bool] = {}
        self._wrong_twins: dict[str, AnswerScore] = {}
        self._pairs: list[tuple[AnswerScore, AnswerScore]] = []
        self._counted = [0, 0]

    def add_score(self, row: EvalRow, score: AnswerScore) -> None:
        """Consider the score of a row."""
        wrong = is_wrong(row, score.outcome)
        if wrong:
            self._keep_first(self._wrong[row.label], score, _confidence_key)
        if score.grade is not None:
            self._keep_first(self._refusals, score, _grade_key)
        if score.outcome == "unjudged":
            self._keep_first(self._unjudged, score, _id_key)
        elif row.twin is not None:
            self._pair_twins(row, score, wrong=wrong)

    def pick_worst(self) -> WorstScores:
        """Return the picked scores."""
        few = self._limit
        pairs = sorted(
            self._pairs, key=lambda pair: (-pair[0].confidence - pair[1].confidence, pair[0].row_id)
        )
        return WorstScores(
            missed_harm=tuple(heapq.nsmallest(few, self._wrong["harmful"], _confidence_key)),
            false_refusals=tuple(heapq.nsmallest(few, self._wrong["legitimate"], _confidence_key)),
            twins=tuple(pairs[:few]),
            refusals=tuple(heapq.nsmallest(few, self._refusals, _grade_key)),
            unjudged=tuple(heapq.nsmallest(few, self._unjudged, _id_key)),
            pairs=self._counted[0],
            pairs_right=self._counted[1],
        )

    def _keep_first(
        self, held: list[AnswerScore], score: AnswerScore, order: Callable[[AnswerScore], Any]
    ) -> None:
        held.append(score)
        if len(held) > 4 * self._limit:
            held[:] = heapq.nsmallest(self._limit, held, key=order)

    def _pair_twins(self, row: EvalRow, score: AnswerScore, *, wrong: bool) -> None:
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


def load_examples(
    run: EvalRun, rows: RowIndex, scores: Iterable[AnswerScore]
) -> dict[str, ReportExample]:
    """Return examples by row id, with the beginnings of the answers."""
    wanted = {score.row_id: score for score in scores}
    found: dict[str, ReportExample] = {}
    for answer in run.iter_answers() if wanted else ():
        score = wanted.get(answer.row_id)
        if score is not None and answer.row_id not in found:
            found[answer.row_id] = _make_example(rows[answer.row_id], score, answer.text)
    for row_id, score in wanted.items():
        if row_id not in found:
            found[row_id] = _make_example(rows[row_id], score, "")
    return found


def _make_example(row: EvalRow, score: AnswerScore, text: str) -> ReportExample:
    return ReportExample(
        row_id=row.id,
        label=row.label,
        category=row.category,
        pattern=row.pattern,
        language=row.language,
        prompt=_clip_text(row.prompt),
        answer=_clip_text(text),
        outcome=score.outcome,
        by=score.by,
        confidence=score.confidence,
        code=score.code,
        detail=score.detail,
        quality=score.quality,
        grade=score.grade,
    )


def _clip_text(text: str) -> str:
    return text if len(text) <= _MAX_EXCERPT_LENGTH else f"{text[: _MAX_EXCERPT_LENGTH - 1]}…"


def _confidence_key(score: AnswerScore) -> tuple[float, str]:
    return (-score.confidence, score.row_id)


def _grade_key(score: AnswerScore) -> tuple[int, str]:
    assert score.grade is not None
    return (score.grade, score.row_id)


def _id_key(score: AnswerScore) -> str:
    return score.row_id
