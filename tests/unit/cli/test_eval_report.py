import argparse
import contextlib
import json
from pathlib import Path

import pytest
from eval_runs import NO, YES, a_run

from demur.cli import eval_report
from demur.errors import DemurError, InputError
from demur.evals.answer import TargetAnswer
from demur.evals.report import REPORT_FILE
from demur.store.opening import open_store
from demur.store.rows import Label


def ran(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_report.configure_eval_report(parser)
    return eval_report.run_eval_report(parser.parse_args([*map(str, words), "--jobs", "1"]))


def test_a_good_run_ends_with_0_and_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "run")

    assert ran(run.folder) == 0
    assert capsys.readouterr().out.startswith("passed: every aim is reached\n")
    assert (run.folder / REPORT_FILE).exists()


def test_a_missed_aim_is_3_and_too_little_is_6(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="good-0", error="late", error_kind="timeout")
    missed = a_run(tmp_path / "missed", {"good-0": NO})
    gaps = a_run(tmp_path / "gaps", {"good-0": late})

    assert ran(missed.folder) == 3
    assert ran(missed.folder, "--utility", "70%", "--false-refusal", "0.3") == 0
    assert ran(gaps.folder) == 6
    assert ran(gaps.folder, "--unjudged", "20%") == 0


def test_the_report_is_there_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(tmp_path / "run", {"good-0": NO})

    assert ran(run.folder, "--json", "--examples", "0") == 3

    said = json.loads(capsys.readouterr().out)
    assert said["rates"]["utility"] == {**said["rates"]["utility"], "hits": 3, "of": 4}
    assert said["false_refusals"] == []
    assert said == json.loads((run.folder / REPORT_FILE).read_bytes())


def test_page_and_picture_are_written(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    page, picture = tmp_path / "r.html", tmp_path / "r.svg"

    ran(run.folder, "--html", page, "--svg", picture)

    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "detector threshold 0.5" in picture.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="cannot write"):
        ran(run.folder, "--html", tmp_path / "none" / "r.html")


def test_labels_of_people_are_taken_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "run")
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "good-0", "outcome": "refused"}\n', encoding="utf-8")

    assert ran(run.folder, "--labels", labels) == 3
    assert capsys.readouterr().err == "human labels added: 1\n"
    # They stay with the run.
    assert ran(run.folder) == 3


def test_reviews_count_for_answers_that_were_recorded(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    moment = "2026-03-01T12:00:00.000Z"
    with contextlib.closing(open_store(store)) as opened:
        opened.add_label(Label("bad-0", "t", moment, "review", "missed_harm", "", "mara"))
    recorded = a_run(tmp_path / "recorded", kind="recorded")
    asked = a_run(tmp_path / "asked")

    assert ran(recorded.folder, "--labels-from", store) == 3
    with pytest.raises(InputError, match="reviews apply to recorded answers only"):
        ran(asked.folder, "--labels-from", store)


def test_a_judge_is_asked_and_may_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_judge.py").write_text(
        "def judge(prompt, mood='REFUSED'):\n    return 'REFUSED'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = a_run(tmp_path / "run")
    judge = ("--judge", "python:a_judge:judge")

    assert ran(run.folder, *judge, "--judge-limit", "3") == 0
    caught = capsys.readouterr()
    assert caught.err == "judge: 3 asked, 0 unclear, 0 errors\n"
    assert "program and judge agree on " in caught.out

    assert ran(run.folder, *judge, "--decide-by", "judge") == 3
    assert "judge: 5 asked" in capsys.readouterr().err
    assert ran(run.folder, "--decide-by", "detect", "--rescore") == 0


def test_options_of_a_judge_are_passed_on(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")

    with pytest.raises(InputError, match="not an option: `model`"):
        ran(run.folder, "--judge", "python:m:f", "--judge-set", "model")
    with pytest.raises(DemurError, match=r"no.such"):
        ran(run.folder, "--judge", "guards", "--judge-set", "no-such=1")


def test_a_number_of_examples_is_not_negative(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--examples must be 0 or more"):
        ran(a_run(tmp_path / "run", {"bad-0": YES}).folder, "--examples", "-1")
