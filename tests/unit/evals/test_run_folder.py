from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from eval_rows import Scripted, a_suite

from demur.evals.answer import TargetAnswer
from demur.evals.run_folder import begin_run, open_run
from demur.evals.run_manifest import RunError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def begun(folder: Path, **settings: Any) -> Any:
    given = {"limit": None, "seed": None, "clock": lambda: NOW, **settings}
    return begin_run(a_suite(3), Scripted(), folder, **given)


def test_what_is_left_is_what_was_not_answered(tmp_path: Path) -> None:
    with begun(tmp_path) as work:
        assert (work.total, work.left) == (3, 3)
        work.file.put(TargetAnswer(row_id=next(work.rows).id))
    with begun(tmp_path) as work:
        assert (work.total, work.left) == (3, 2)
        assert [row.id for row in work.rows] == ["r1", "r2"]


def test_a_run_that_died_before_its_first_answer_goes_on(tmp_path: Path) -> None:
    with begun(tmp_path):
        """Nothing is answered."""
    (tmp_path / "answers.jsonl").unlink()
    with begun(tmp_path) as work:
        assert work.left == 3


def test_what_a_run_left_before_it_had_a_manifest_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("of whom?", encoding="utf-8")
    (tmp_path / "run.json.new").write_text("half", encoding="utf-8")
    with begun(tmp_path) as work:
        assert work.left == 3

    assert list(open_run(tmp_path).iter_answers()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="is not empty and holds no run"), begun(tmp_path):
        """It does not come to this."""


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot make the run's folder"), begun(tmp_path / "file"):
        """It does not come to this."""


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with begun(tmp_path):
        """Made."""
    run = open_run(tmp_path)
    (tmp_path / "rows.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(RunError, match="cannot read the rows"):
        list(run.iter_rows())
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(RunError, match="no such file"):
        list(run.iter_rows())
