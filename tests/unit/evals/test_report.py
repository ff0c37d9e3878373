from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.eval_rows import a_row
from support.eval_runs import NO, PART, YES, a_run, pairs, unfinished

from demur.evals.rates import EvalThresholds, OutcomeCounts
from demur.evals.report import (
    REPORT_FILE,
    WorstPicker,
    count_scores,
    load_examples,
    make_report,
    save_report,
)
from demur.evals.report_text import report_text
from demur.evals.run_files import RunError
from demur.evals.run_folder import RowIndex
from demur.evals.score import AnswerScore
from demur.evals.scoring import read_scores, score_run
from demur.evals.target import TargetAnswer

FILTERED = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": None}, "finish_reason": "content_filter"}],
}


def test_a_run_without_mistakes_reaches_every_aim(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "run"))

    assert report.status == 0
    assert (report.rates.safety.value, report.rates.utility.value) == (1.0, 1.0)
    assert (report.twins_separated.hits, report.twins_separated.of) == (4, 4)
    assert report.complete
    assert not report.missed_harm
    assert not report.false_refusals


def test_mistakes_are_counted_on_their_side(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", {"good-0": NO, "bad-0": YES, "bad-1": PART, "good-1": PART})

    report = make_report(run)

    assert report.status == 3
    assert (report.harmful.refused, report.harmful.complied, report.harmful.partial) == (2, 1, 1)
    assert (report.rates.safety.hits, report.rates.false_refusal.hits) == (2, 1)
    assert [one.row_id for one in report.missed_harm] == ["bad-0"]
    assert [one.row_id for one in report.false_refusals] == ["good-0"]
    assert [[one.row_id for one in pair] for pair in report.twins] == [["bad-0", "good-0"]]


def test_rows_that_guards_warned_of_are_counted_apart_from_refused_ones(tmp_path: Path) -> None:
    def passed(row_id: str) -> TargetAnswer:
        return TargetAnswer(row_id=row_id, text=YES, warnings=("CONTENT_CRIME",))

    run = a_run(tmp_path / "run", {name: passed(name) for name in ("bad-0", "good-0", "good-1")})
    report = make_report(run)

    held = {label: (rate.hits, rate.of) for label, rate in report.held_or_warned.items()}
    assert held == {"harmful": (4, 4), "legitimate": (2, 4)}
    assert (report.rates.safety.hits, report.rates.false_refusal.hits) == (3, 0)
    text = report_text(report)
    assert "legitimate, held or warned   50.0 %" in text
    assert "warned: CONTENT_CRIME" in text
    assert make_report(a_run(tmp_path / "quiet")).held_or_warned == {}


def test_unjudged_rows_are_reported_and_move_no_rate(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="good-0", error="late", error_kind="timeout")
    run = unfinished(a_run(tmp_path / "run", {"good-0": late, "bad-0": " "}), "bad-3")

    report = make_report(run)

    assert report.status == 6
    assert report.unjudged == {"timeout": 1, "empty": 1, "unanswered": 1}
    assert (report.rates.safety.value, report.rates.utility.value) == (1.0, 1.0)
    assert not report.complete
    assert [one.row_id for one in report.not_judged] == ["bad-0", "good-0"]
    assert make_report(run, thresholds=EvalThresholds(unjudged=0.5)).status == 0


def test_rows_are_grouped_by_what_they_have_in_common(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "run", {"good-0": NO}))

    assert [(group.name, group.rows) for group in report.groups["pattern"]] == [
        ("keyword_triggering", 4),
        ("scope_expansion", 4),
    ]
    assert report.groups["pattern"][1].rates.utility.value == 0.5
    # All rows are of one domain and one language.
    assert report.groups["domain"] == report.groups["language"] == ()


def test_rows_without_a_category_are_a_group_as_well(tmp_path: Path) -> None:
    first, *rest = pairs()
    rows = [msgspec.structs.replace(first, category=""), *rest]

    report = make_report(a_run(tmp_path / "run", rows=rows))

    assert [group.name for group in report.groups["category"]] == ["none", "crime", "cyber"]


def test_the_wording_of_refusals_is_judged(tmp_path: Path) -> None:
    filtered = TargetAnswer(row_id="bad-0", native=FILTERED)
    report = make_report(a_run(tmp_path / "run", {"bad-0": filtered}))

    assert report.quality.verdicts == {"incomplete": 3}
    assert report.quality.mean_grade is not None
    assert report.quality.wordless == 1
    assert report.decided_by == {"detect": 7, "provider": 1}
    assert len(report.worst_refusals) == 3


def test_without_refusals_there_is_no_grade(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "run", dict.fromkeys(("bad-0",), YES), pairs(1)))

    assert report.quality.mean_grade is None


def test_no_examples_are_none(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "run", {"good-0": NO, "bad-0": YES}), examples=0)

    assert not any((report.missed_harm, report.twins, report.worst_refusals))


def test_a_report_is_kept_in_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    report = make_report(run)
    save_report(run, report)

    kept = msgspec.json.decode((run.folder / REPORT_FILE).read_bytes())
    assert kept["schema_version"] == "eval_report.v1"
    assert kept["rates"]["safety"]["value"] == 1.0


def test_a_report_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / f"{REPORT_FILE}.new").mkdir()

    with pytest.raises(RunError, match="cannot write the report"):
        save_report(run, make_report(run))


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


def score(row_id: str, outcome: Any, confidence: float = 0.9, **fields: Any) -> AnswerScore:
    return AnswerScore(row_id=row_id, outcome=outcome, by="detect", confidence=confidence, **fields)


def test_the_surest_mistakes_come_first_whatever_the_order() -> None:
    picker = WorstPicker(2)
    for number in range(1, 60, 2):
        picker.add_score(a_row(number), score(f"r{number}", "complied", number / 100))
    for number in range(0, 60, 2):
        picker.add_score(a_row(number), score(f"r{number}", "refused", 0.5))

    worst = picker.pick_worst()

    assert [one.row_id for one in worst.missed_harm] == ["r59", "r57"]
    assert [one.row_id for one in worst.false_refusals] == ["r0", "r10"]


def test_a_right_or_half_right_answer_is_not_a_worst_example() -> None:
    picker = WorstPicker()
    picker.add_score(a_row(1), score("r1", "refused"))
    picker.add_score(a_row(0), score("r0", "partial"))

    assert not any(picker.pick_worst())


def test_badly_worded_refusals_are_picked_by_grade() -> None:
    picker = WorstPicker(1)
    picker.add_score(a_row(1), score("r1", "refused", grade=40, quality="robotic"))
    picker.add_score(a_row(3), score("r3", "refused", grade=20, quality="preachy"))

    assert [one.row_id for one in picker.pick_worst().refusals] == ["r3"]


def test_twins_are_put_side_by_side_the_harmful_one_first() -> None:
    picker = WorstPicker()
    rows = {row.id: row for row in pairs(3)}
    said = {
        "good-0": "refused",
        "bad-0": "complied",
        "bad-1": "complied",
        "good-1": "refused",
        "good-2": "complied",
        "bad-2": "refused",
    }
    for row_id, outcome in said.items():
        confidence = 0.99 if row_id.endswith("1") else 0.6
        picker.add_score(rows[row_id], score(row_id, outcome, confidence))

    worst = picker.pick_worst()

    assert [(one.row_id, other.row_id) for one, other in worst.twins] == [
        ("bad-1", "good-1"),
        ("bad-0", "good-0"),
    ]
    assert (worst.pairs, worst.pairs_right) == (3, 1)


def test_a_twin_that_was_not_judged_makes_no_pair() -> None:
    picker = WorstPicker()
    rows = {row.id: row for row in pairs(1)}
    picker.add_score(rows["good-0"], score("good-0", "refused"))
    picker.add_score(rows["bad-0"], score("bad-0", "unjudged", 0.0))

    worst = picker.pick_worst()
    assert (worst.pairs, worst.twins) == (0, ())
    assert [one.row_id for one in worst.unjudged] == ["bad-0"]


def test_examples_come_with_the_beginnings_of_both_texts(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", {"good-0": NO + "x" * 1000})
    part = unfinished(run, "bad-0")

    with RowIndex(part) as rows:
        found = load_examples(part, rows, [score("good-0", "refused"), score("bad-0", "unjudged")])
        assert load_examples(part, rows, []) == {}

    assert len(found["good-0"].answer) == 400
    assert found["good-0"].prompt == "Please count the boxes in row 0."
    assert found["good-0"].pattern == "scope_expansion"
    assert found["bad-0"].answer == ""
    assert YES not in found["good-0"].answer
