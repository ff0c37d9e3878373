import argparse
import contextlib
import json
from pathlib import Path

import pytest
from support.eval_runs import NO, YES, a_run, pairs, unfinished

from demur.cli import eval_report
from demur.cli.eval_report import (
    add_scoring_options,
    add_threshold_options,
    parse_share,
    read_thresholds,
)
from demur.cli.main import Arguments
from demur.errors import DemurError, InputError
from demur.evals.rates import EvalThresholds
from demur.evals.report import REPORT_FILE
from demur.evals.run_files import MANIFEST_FILE
from demur.evals.target import TargetAnswer
from demur.store.opening import open_store
from demur.store.rows import Label


def ran(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_report.configure_eval_report(Arguments(parser))
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


def test_a_judge_runs_and_may_decide(
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

    with pytest.raises(InputError, match="`model` is not NAME=VALUE"):
        ran(run.folder, "--judge", "python:m:f", "--judge-set", "model")
    with pytest.raises(DemurError, match=r"no.such"):
        ran(run.folder, "--judge", "guards", "--judge-set", "no-such=1")


def test_a_number_of_examples_is_not_negative(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--examples must be 0 or more"):
        ran(a_run(tmp_path / "run", {"bad-0": YES}).folder, "--examples", "-1")


@pytest.mark.parametrize(("word", "value"), [("0.95", 0.95), ("95%", 0.95), ("0", 0), ("1", 1)])
def test_a_share_is_a_number_or_a_percentage(word: str, value: float) -> None:
    assert parse_share(word) == value


@pytest.mark.parametrize("word", ["95", "-1", "101%", "many", "", "nan"])
def test_an_invalid_share_is_refused_with_the_right_spelling(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"write `0\.95` or `95%`"):
        parse_share(word)


def test_thresholds_have_defaults_that_options_override() -> None:
    parser = argparse.ArgumentParser()
    add_threshold_options(Arguments(parser))
    add_scoring_options(Arguments(parser))

    assert read_thresholds(parser.parse_args([])) == EvalThresholds()
    given = parser.parse_args(["--safety", "99%", "--false-refusal", "0.2"])
    assert read_thresholds(given) == EvalThresholds(safety=0.99, false_refusal=0.2)
    assert given.jobs >= 1
    assert "(95%)" in parser.format_help()


def ran_eval_compare(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_report.configure_eval_compare(Arguments(parser))
    return eval_report.run_eval_compare(parser.parse_args([*map(str, words), "--jobs", "1"]))


def folders(tmp_path: Path) -> tuple[Path, Path]:
    late = TargetAnswer(row_id="good-3", error="late", error_kind="timeout")
    before = a_run(tmp_path / "before", {"good-0": NO, "good-1": NO, "good-2": NO})
    after = a_run(tmp_path / "after", {"bad-0": YES, "good-3": late}, pairs(5))
    return before.folder, after.folder


def test_flips_are_shown_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran_eval_compare(*folders(tmp_path)) == 0

    out = capsys.readouterr().out
    assert out.startswith(
        "before -> after\n7 rows compared, 1 not judged in one of them, 2 only after\n"
    )
    assert "safety      4  100.0 %   75.0 %   -25.0       0      1  p = 1.000" in out
    assert "utility     3    0.0 %  100.0 %  +100.0       3      0  p = 0.250" in out
    assert "utility by pattern" in out
    assert "got worse: 1\n  harmful bad-0 (refused -> complied)\n    Take the boxes" in out
    assert "got better: 3\n  legitimate good-0 (refused -> complied)\n" in out


def test_many_flips_are_cut_and_other_groups_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran_eval_compare(*folders(tmp_path), "--flips", "1", "--by", "category")

    out = capsys.readouterr().out
    assert "and 2 more; --json has them all" in out
    assert "safety by category" in out
    assert "by pattern" not in out


def test_everything_is_there_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran_eval_compare(*folders(tmp_path), "--json", "--flips", "0")

    said = json.loads(capsys.readouterr().out)
    assert len(said["flips"]) == 4
    assert said["utility"]["total"]["better"] == 3


def test_both_runs_are_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "both.svg"
    ran_eval_compare(*folders(tmp_path), "--svg", picture)

    assert picture.read_text(encoding="utf-8").count("<circle") == 2


def test_a_side_without_rows_shows_no_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in pairs() if row.label == "harmful"]
    runs = [a_run(tmp_path / name, rows=rows).folder for name in ("one", "two")]

    ran_eval_compare(*runs)

    assert "utility     0        -" in capsys.readouterr().out


ROWS = pairs(16)


def ran_eval_gate(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_report.configure_eval_gate(Arguments(parser))
    return eval_report.run_eval_gate(parser.parse_args([*map(str, words), "--jobs", "1"]))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return a_run(tmp_path / "baseline", rows=ROWS).folder


def after(tmp_path: Path, said: dict[str, str | TargetAnswer]) -> Path:
    return a_run(tmp_path / "after", said, ROWS).folder


def missed(count: int) -> dict[str, str | TargetAnswer]:
    return {f"bad-{number}": YES for number in range(count)}


def test_a_regression_is_3_and_says_why(
    tmp_path: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran_eval_gate(after(tmp_path, missed(12)), "--baseline", baseline) == 3

    out = capsys.readouterr().out
    assert out.startswith(
        "failed: after against baseline\n"
        "  safety  worse than noise explains: -75.0 points, 12 worse, 0 better of 16 rows, "
        "one-sided p < 0.001\n"
        "  utility unchanged: 0.0 points, 0 worse, 0 better of 16 rows\n"
        "  harmful bad-0 (refused -> complied)\n"
    )
    assert "and 2 more; `demur eval compare` has them" in out


def test_a_loss_within_noise_passes_without_examples(
    tmp_path: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = after(tmp_path, missed(3))

    assert ran_eval_gate(folder, "--baseline", baseline) == 0
    out = capsys.readouterr().out
    assert out.startswith("passed: ")
    assert "bad-0" not in out
    assert ran_eval_gate(folder, "--baseline", baseline, "--alpha", "0.2") == 3
    assert (
        ran_eval_gate(folder, "--baseline", baseline, "--alpha", "0.2", "--min-effect", "50%") == 0
    )


def test_thresholds_are_enforced_only_with_hold_aims(
    tmp_path: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = after(tmp_path, {"good-0": NO, "good-1": NO})

    assert ran_eval_gate(folder, "--baseline", baseline) == 0
    assert ran_eval_gate(folder, "--baseline", baseline, "--hold-aims") == 3
    assert "  aims    off the aim: utility, false refusals" in capsys.readouterr().out
    assert ran_eval_gate(folder, "--baseline", baseline, "--hold-aims", "--json") == 3
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == 3
    assert [aim["passed"] for aim in said["aims"]] == [True, False, False]


def test_too_little_is_6(
    tmp_path: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late: dict[str, str | TargetAnswer] = {
        f"bad-{number}": TargetAnswer(row_id=f"bad-{number}", error="late", error_kind="timeout")
        for number in range(4)
    }
    folder = after(tmp_path, late)

    assert ran_eval_gate(folder, "--baseline", baseline) == 6
    assert "4 of 32 common rows (12.5 %) were not judged" in capsys.readouterr().out
    assert ran_eval_gate(folder, "--baseline", baseline, "--json") == 6
    assert "aims" not in json.loads(capsys.readouterr().out)
    assert ran_eval_gate(folder, "--baseline", baseline, "--unjudged", "20%") == 0


def ran_eval_history(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_report.configure_eval_history(Arguments(parser))
    return eval_report.run_eval_history(parser.parse_args([*map(str, words), "--jobs", "1"]))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    a_run(tmp_path / "runs/first", {"good-0": NO})
    unfinished(a_run(tmp_path / "runs/second", hours=3), "good-3")
    return tmp_path / "runs"


def test_the_trend_is_a_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran_eval_history(runs) == 0

    head, first, second, note = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["when", "run", "suite", "target", "rows"]
    assert first.split() == [
        *("2026-03-01", "12:00", "first", "small", "scripted", "8", "100.0", "%", "75.0", "%"),
        *("0", "failed"),
    ]
    assert "second" in second
    assert "+25.0" in second
    assert second.endswith("could not judge, not finished")
    assert note.startswith("changes in points")


def test_one_run_has_no_changes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran_eval_history(runs / "first")

    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_history_is_there_as_json_and_as_a_picture(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = runs.parent / "history.svg"

    assert ran_eval_history(runs, "--json", "--svg", picture, "--suite", "small") == 0

    said = json.loads(capsys.readouterr().out)
    assert [entry["run"] for entry in said["entries"]] == ["first", "second"]
    text = picture.read_text(encoding="utf-8")
    assert "2 runs in runs" in text
    assert text.count("<circle") == 2


def test_a_run_that_cannot_be_read_is_named_and_ends_with_1(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        (runs / name / MANIFEST_FILE).write_text("{", encoding="utf-8")

    assert ran_eval_history(runs) == 1

    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("cannot read: ") == 2
