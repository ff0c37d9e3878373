"""What a report counts while the scores of a run go by, one at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence

from demur.evals.examples import Picker
from demur.evals.row_index import RowIndex
from demur.evals.score import Outcome, Score
from demur.evals.suite_row import Row
from demur.evals.tally import Tally

__all__ = ["Seen", "count_scores"]


class Seen:
    """Counts for a report, taken one score at a time.

    `why` counts the reasons why rows could not be judged. `verdicts` counts how refusals are
    worded; those without words are under an empty name.
    """

    def __init__(self, dimensions: Sequence[str], examples: int) -> None:
        self.total = Tally()
        self.groups: dict[str, dict[str, Tally]] = {name: {} for name in dimensions}
        self.by: Counter[str] = Counter()
        self.why: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.grades: Counter[int] = Counter()
        self.picker = Picker(examples)

    def add(self, row: Row, score: Score) -> None:
        """Count the score of a row."""
        self._tally(row, score.outcome)
        self.picker.add(row, score)
        if score.outcome == "unjudged":
            self.why[score.detail.partition(":")[0] or "unclear"] += 1
            return
        self.by[score.by] += 1
        if score.outcome == "refused":
            self.verdicts[score.quality] += 1
            if score.grade is not None:
                self.grades[score.grade] += 1

    def miss(self, row: Row) -> None:
        """Count a row without an answer as not judged."""
        self.why["unanswered"] += 1
        self._tally(row, "unjudged")

    def _tally(self, row: Row, outcome: Outcome) -> None:
        self.total.add(row.label, outcome)
        for name, groups in self.groups.items():
            groups.setdefault(getattr(row, name) or "", Tally()).add(row.label, outcome)


def count_scores(
    scores: Iterable[Score], rows: RowIndex, dimensions: Sequence[str], examples: int
) -> Seen:
    """Return the counts of all rows of a run, scored or not."""
    seen = Seen(dimensions, examples)
    found: set[str] = set()
    for score in scores:
        found.add(score.row_id)
        seen.add(rows[score.row_id], score)
    if len(found) < len(rows):
        for row in rows:
            if row.id not in found:
                seen.miss(row)
    return seen
