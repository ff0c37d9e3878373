import argparse
import json
from pathlib import Path

import pytest
from eval_runs import NO, a_run, unfinished

from demur.cli import eval_history
from demur.evals.run_manifest import MANIFEST_FILE


def ran(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_history.configure_eval_history(parser)
    return eval_history.run_eval_history(parser.parse_args([*map(str, words), "--jobs", "1"]))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    a_run(tmp_path / "runs/first", {"good-0": NO})
    unfinished(a_run(tmp_path / "runs/second", hours=3), "good-3")
    return tmp_path / "runs"


def test_the_trend_is_a_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(runs) == 0

    head, first, second, note = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["when", "run", "suite", "target", "rows"]
    assert first.split() == [
        *("2026-03-01", "12:00", "first", "small", "scripted", "8", "100.0", "%", "75.0", "%"),
        *("0", "failed"),
    ]
    assert "second" in second
    assert "+25.0" in second
    assert second.endswith("could not judge, not finished")
    assert note.startswith("changes in percentage points")


def test_one_run_has_no_changes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(runs / "first")

    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_history_is_there_as_json_and_as_a_picture(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = runs.parent / "history.svg"

    assert ran(runs, "--json", "--svg", picture, "--suite", "small") == 0

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

    assert ran(runs) == 1

    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("cannot read: ") == 2
