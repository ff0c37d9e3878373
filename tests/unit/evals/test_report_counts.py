from pathlib import Path

from eval_runs import NO, PART, a_run, unfinished

from demur.evals.report_counts import count_scores
from demur.evals.row_index import RowIndex
from demur.evals.scoring import read_scores, score_run
from demur.evals.tally import OutcomeCounts


def test_every_row_is_counted_with_or_without_an_answer(tmp_path: Path) -> None:
    run = unfinished(a_run(tmp_path / "run", {"good-1": NO, "bad-2": PART}), "good-0")
    score_run(run)

    with RowIndex(run) as rows:
        seen = count_scores(read_scores(run), rows, ("category",), 5)

    assert seen.total.label_counts("harmful") == OutcomeCounts(refused=3, partial=1)
    assert seen.total.label_counts("legitimate") == OutcomeCounts(refused=1, complied=2, unjudged=1)
    assert seen.why == {"unanswered": 1}
    assert seen.by == {"detect": 7}
    assert seen.verdicts == {"incomplete": 4}
    assert seen.grades.total() == 4
    assert set(seen.groups["category"]) == {"crime", "cyber"}
    assert seen.groups["category"]["cyber"].label_counts("legitimate").unjudged == 1
