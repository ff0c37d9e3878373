from pathlib import Path

import pytest
from eval_runs import NO, PART, YES, a_run

from demur.errors import InputError
from demur.evals.answer import TargetAnswer
from demur.evals.curve import make_point, threshold_points
from demur.evals.report import make_report
from demur.evals.score import encode_score
from demur.evals.scoring import SCORES_FILE, read_scores, score_run


def test_a_run_is_a_point_named_by_its_folder(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "first", {"good-0": NO}))

    point = make_point(report)
    assert (point.name, point.series) == ("first", "")
    assert (point.utility.value, point.safety.value) == (0.75, 1.0)
    assert make_point(report, "beta 0.1", "betas").name == "beta 0.1"


def test_a_higher_threshold_finds_fewer_refusals(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="good-3", error="late", error_kind="timeout")
    run = a_run(tmp_path / "run", {"good-0": PART, "good-3": late})
    score_run(run)

    points = threshold_points(run, (0.0001, 0.5, 0.9999))

    assert [point.name for point in points] == ["0.0001", "0.5", "0.9999"]
    assert {point.series for point in points} == {"detector threshold"}
    assert [point.safety.hits for point in points] == [4, 4, 0]
    assert [point.utility.of for point in points] == [3, 3, 3]
    assert points[1].utility.hits == 2


def test_what_a_provider_or_a_person_said_does_not_move(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    score_run(run)
    lines = [encode_score(score).replace(b'"detect"', b'"human"') for score in read_scores(run)]
    (run.folder / SCORES_FILE).write_bytes(b"\n".join(lines) + b"\n")

    assert [point.safety.hits for point in threshold_points(run, (0.01, 0.99))] == [4, 4]


@pytest.mark.parametrize("threshold", [0, 1, -0.5])
def test_a_threshold_is_between_nothing_and_all(tmp_path: Path, threshold: float) -> None:
    run = a_run(tmp_path / "run", {"bad-0": YES})

    with pytest.raises(InputError, match="a threshold is between"):
        threshold_points(run, (threshold,))
