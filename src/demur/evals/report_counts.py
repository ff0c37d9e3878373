"""What a report counts while the scores of a run go by, one at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence

from demur.evals.examples import WorstPicker
from demur.evals.row_index import RowIndex
from demur.evals.score import Outcome, AnswerScore
from demur.evals.suite_row import EvalRow
from demur.evals.tally import OutcomeTally

__all__ = ["ScoreCounts", "count_scores"]


class ScoreCounts:
    """Counts for a report, taken one score at a time.

    `why` counts the reasons why rows could not be judged. `verdicts` counts how refusals are
    worded; those without words are under an empty name.
    """

    def __init__(self, dimensions: Sequence[str], examples: int) -> None:
        self.total = OutcomeTally()
        self.groups: dict[str, dict[str, OutcomeTally]] = {name: {} for name in dimensions}
        self.by: Counter[str] = Counter()
        self.why: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.grades: Counter[int] = Counter()
        self.picker = WorstPicker(examples)

    def count_score(self, row: EvalRow, score: AnswerScore) -> None:
        """Count the score of a row."""
        self._count_outcome(row, score.outcome)
        self.picker.add_score(row, score)
        if score.outcome == "unjudged":
            self.why[score.detail.partition(":")[0] or "unclear"] += 1
            return
        self.by[score.by] += 1
        if score.outcome == "refused":
            self.verdicts[score.quality] += 1
            if score.grade is not None:
                self.grades[score.grade] += 1

    def count_unanswered(self, row: EvalRow) -> None:
        """Count a row without an answer as not judged."""
        self.why["unanswered"] += 1
        self._count_outcome(row, "unjudged")

    def _count_outcome(self, row: EvalRow, outcome: Outcome) -> None:
        self.total.add_outcome(row.label, outcome)
        for name, groups in self.groups.items():
            groups.setdefault(getattr(row, name) or "", OutcomeTally()).add_outcome(
                row.label, outcome
            )


def count_scores(
    scores: Iterable[AnswerScore], rows: RowIndex, dimensions: Sequence[str], examples: int
) -> ScoreCounts:
    """Return the counts of all rows of a run, scored or not."""
    seen = ScoreCounts(dimensions, examples)
    found: set[str] = set()
    for score in scores:
        found.add(score.row_id)
        seen.count_score(rows[score.row_id], score)
    if len(found) < len(rows):
        for row in rows:
            if row.id not in found:
                seen.count_unanswered(row)
    return seen
