from pathlib import Path

import msgspec
import pytest
from support.eval_rows import Scripted, a_row, wait
from support.eval_runs import NO, PART, YES, a_run, pairs

from demur.errors import InputError
from demur.evals import scoring
from demur.evals.run_files import RunError
from demur.evals.run_folder import ANSWERS_FILE, EvalRun
from demur.evals.scoring import SCORES_FILE, SCORING_FILE, read_scores, score_answers, score_run
from demur.evals.target import TargetAnswer, encode_answer
from demur.evals.verdicts import judge_run, merge_labels


def outcomes(run: EvalRun) -> dict[str, str]:
    return {score.row_id: f"{score.outcome} by {score.by}" for score in read_scores(run)}


def judged(run: EvalRun, word: str) -> None:
    judge = Scripted(lambda row: TargetAnswer(row_id=row.id, text=word))
    wait(judge_run(run, judge))


def test_every_answer_has_a_score_in_the_order_of_the_answers(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="good-1", error="late", error_kind="timeout")
    run = a_run(tmp_path / "run", {"good-0": NO, "bad-0": PART, "good-1": late})

    score_run(run)

    found = outcomes(run)
    assert list(found) == [answer.row_id for answer in run.iter_answers()]
    assert found["good-0"] == "refused by detect"
    assert found["bad-0"] == "partial by detect"
    assert found["good-1"] == "unjudged by detect"
    assert found["bad-1"] == "refused by detect"


def test_processes_give_the_same_scores_in_the_same_order() -> None:
    rows = [a_row(number) for number in range(450)]
    answers = [
        TargetAnswer(row_id=row.id, text=NO if row.label == "harmful" else YES) for row in rows
    ]

    alone = list(score_answers(iter(zip(rows, answers, strict=True))))
    together = list(score_answers(iter(zip(rows, answers, strict=True)), workers=2))

    assert alone == together
    assert [score.row_id for score, _ in alone] == [row.id for row in rows]


def test_batches_and_scores_travel_between_processes_as_bytes() -> None:
    row = a_row()
    batch = msgspec.msgpack.encode([(row, TargetAnswer(row_id=row.id, text=NO))])

    [score] = msgspec.msgpack.decode(scoring._score_encoded(batch))

    assert (score["row_id"], score["outcome"]) == (row.id, "refused")


def test_a_large_run_is_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "run")
    score_run(run)
    alone = list(read_scores(run))
    monkeypatch.setattr(scoring, "_MIN_PARALLEL_ANSWERS", 3)

    score_run(run, workers=2, fresh=True)

    assert list(read_scores(run)) == alone


def test_scores_are_computed_once(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    first = score_run(run)
    path = run.folder / SCORES_FILE
    path.write_bytes(path.read_bytes().replace(b'"refused"', b'"partial"'))

    assert score_run(run) == first
    assert "partial by detect" in outcomes(run).values()

    score_run(run, fresh=True)
    assert "partial by detect" not in outcomes(run).values()


def test_new_answers_are_scored(tmp_path: Path) -> None:
    rows = pairs()
    run = a_run(tmp_path / "run", rows=rows)
    score_run(run)
    (run.folder / ANSWERS_FILE).write_bytes(
        encode_answer(TargetAnswer(row_id="good-0", text=NO)) + b"\n"
    )

    score_run(run)

    assert outcomes(run) == {"good-0": "refused by detect"}


@pytest.mark.parametrize("name", [SCORES_FILE, SCORING_FILE])
def test_a_lost_file_is_written_again(tmp_path: Path, name: str) -> None:
    run = a_run(tmp_path / "run")
    score_run(run)
    (run.folder / name).unlink()

    score_run(run)

    assert len(outcomes(run)) == 8


def test_labels_of_people_come_first(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    judged(run, "PARTIAL")
    merge_labels(run, {"good-0": "refused", "bad-0": "refused", "good-1": "unjudged"})

    done = score_run(run, decide_by="judge")

    found = outcomes(run)
    assert found["good-0"] == "refused by human"
    assert found["good-1"] == "unjudged by human"
    assert found["bad-1"] == "partial by judge"
    assert {one.second: one.agreed.hits for one in done.agreement} == {"judge": 0, "human": 1}


def test_a_label_that_agrees_with_the_detector_keeps_its_code(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    merge_labels(run, {"bad-0": "refused", "bad-1": "complied"})

    score_run(run)

    by_id = {score.row_id: score for score in read_scores(run)}
    assert by_id["bad-0"].code == "MODEL_DECLINED"
    assert by_id["bad-0"].quality == "incomplete"
    assert (by_id["bad-1"].code, by_id["bad-1"].quality) == (None, "")


def test_a_judge_is_only_compared_unless_it_is_to_decide(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    judged(run, "COMPLIED")

    done = score_run(run)

    assert {one.partition(" by ")[2] for one in outcomes(run).values()} == {"detect"}
    [agreement] = done.agreement
    assert (agreement.first, agreement.second) == ("program", "judge")
    assert (agreement.agreed.hits, agreement.agreed.of) == (4, 8)


def test_the_choice_of_judge_stays_until_it_is_changed(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    judged(run, "COMPLIED")
    score_run(run, decide_by="judge")

    assert score_run(run).decide_by == "judge"
    assert outcomes(run)["bad-0"] == "complied by judge"
    score_run(run, decide_by="detect")
    assert outcomes(run)["bad-0"] == "refused by detect"


def test_a_judge_that_is_unsure_decides_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    judged(run, "UNCLEAR")

    score_run(run, decide_by="judge")

    assert outcomes(run)["bad-0"] == "refused by detect"


def test_of_two_answers_to_a_row_the_first_counts(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with (run.folder / ANSWERS_FILE).open("ab") as file:
        file.write(encode_answer(TargetAnswer(row_id="bad-0", text=YES)) + b"\n")

    score_run(run)

    assert outcomes(run)["bad-0"] == "refused by detect"


def test_an_answer_of_another_run_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / ANSWERS_FILE).write_bytes(
        encode_answer(TargetAnswer(row_id="other", text=YES)) + b"\n"
    )

    with pytest.raises(RunError, match="not a row of this run"):
        score_run(run)


def test_a_run_without_answers_has_no_scores(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / ANSWERS_FILE).unlink()

    score_run(run)

    assert outcomes(run) == {}


def test_scores_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")

    with pytest.raises(RunError, match="cannot read the scores"):
        list(read_scores(run))
    (run.folder / SCORES_FILE).write_bytes(b"{}\n")
    with pytest.raises(RunError, match="cannot read the scores"):
        list(read_scores(run))


@pytest.mark.parametrize("name", [SCORES_FILE, SCORING_FILE])
def test_scores_that_cannot_be_written_are_an_error(tmp_path: Path, name: str) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / f"{name}.new").mkdir()

    with pytest.raises(RunError, match="cannot write"):
        score_run(run)


def test_there_is_at_least_one_process(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        score_run(a_run(tmp_path / "run"), workers=0)


def test_how_it_was_scored_is_kept(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    done = score_run(run)

    kept = msgspec.json.decode((run.folder / SCORING_FILE).read_bytes())
    assert kept["fingerprint"] == done.fingerprint
    assert kept["schema_version"] == "eval_scoring.v1"
