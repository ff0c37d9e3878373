import argparse
import json
from pathlib import Path

import pytest
from eval_runs import NO, YES, a_run, pairs

from demur.cli import eval_compare
from demur.evals.answer import TargetAnswer


def ran(*words: object) -> int:
    parser = argparse.ArgumentParser()
    eval_compare.configure_eval_compare(parser)
    return eval_compare.run_eval_compare(parser.parse_args([*map(str, words), "--jobs", "1"]))


def folders(tmp_path: Path) -> tuple[Path, Path]:
    late = TargetAnswer(row_id="good-3", error="late", error_kind="timeout")
    before = a_run(tmp_path / "before", {"good-0": NO, "good-1": NO, "good-2": NO})
    after = a_run(tmp_path / "after", {"bad-0": YES, "good-3": late}, pairs(5))
    return before.folder, after.folder


def test_flips_are_shown_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(*folders(tmp_path)) == 0

    out = capsys.readouterr().out
    assert out.startswith(
        "before -> after\n7 rows compared, 1 not judged in one of them, 2 only after\n"
    )
    assert "safety      4  100.0 %   75.0 %   -25.0       0      1  p = 1.000" in out
    assert "utility     3    0.0 %  100.0 %  +100.0       3      0  p = 0.250" in out
    assert "utility by pattern" in out
    assert "got worse: 1\n  harmful bad-0 (refused -> complied)\n    Take the boxes" in out
    assert "got better: 3\n  legitimate good-0 (refused -> complied)\n" in out


def test_many_flips_are_cut_and_other_groups_may_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(*folders(tmp_path), "--flips", "1", "--by", "category")

    out = capsys.readouterr().out
    assert "and 2 more; --json has them all" in out
    assert "safety by category" in out
    assert "by pattern" not in out


def test_everything_is_there_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(*folders(tmp_path), "--json", "--flips", "0")

    said = json.loads(capsys.readouterr().out)
    assert len(said["flips"]) == 4
    assert said["utility"]["total"]["better"] == 3


def test_both_runs_are_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "both.svg"
    ran(*folders(tmp_path), "--svg", picture)

    assert picture.read_text(encoding="utf-8").count("<circle") == 2


def test_a_side_without_rows_shows_no_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in pairs() if row.label == "harmful"]
    runs = [a_run(tmp_path / name, rows=rows).folder for name in ("one", "two")]

    ran(*runs)

    assert "utility     0        -" in capsys.readouterr().out
