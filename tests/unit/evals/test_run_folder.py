from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.eval_rows import Scripted, a_row, a_suite
from support.eval_runs import a_run, pairs

from demur.evals.run_files import RunError
from demur.evals.run_folder import ROWS_FILE, RowIndex, begin_run, open_run, select_rows
from demur.evals.target import TargetAnswer

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def begun(folder: Path, **settings: Any) -> Any:
    given = {"limit": None, "seed": None, "clock": lambda: NOW, **settings}
    return begin_run(a_suite(3), Scripted(), folder, **given)


def test_only_unanswered_rows_are_left(tmp_path: Path) -> None:
    with begun(tmp_path) as work:
        assert (work.total, work.left) == (3, 3)
        work.file.append_answer(TargetAnswer(row_id=next(work.rows).id))
    with begun(tmp_path) as work:
        assert (work.total, work.left) == (3, 2)
        assert [row.id for row in work.rows] == ["r1", "r2"]


def test_a_run_that_died_before_its_first_answer_goes_on(tmp_path: Path) -> None:
    with begun(tmp_path):
        """Nothing is answered."""
    (tmp_path / "answers.jsonl").unlink()
    with begun(tmp_path) as work:
        assert work.left == 3


def test_leftovers_of_a_run_without_a_manifest_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("of whom?", encoding="utf-8")
    (tmp_path / "run.json.new").write_text("half", encoding="utf-8")
    with begun(tmp_path) as work:
        assert work.left == 3

    assert list(open_run(tmp_path).iter_answers()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="is not empty and holds no run"), begun(tmp_path):
        """It does not come to this."""


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
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


ROWS = a_suite(40).rows


def test_without_a_seed_the_order_is_the_suites() -> None:
    assert select_rows(ROWS, seed=None, limit=None) is ROWS
    assert select_rows(ROWS, seed=None, limit=3) == ROWS[:3]


@given(seed=st.integers(), limit=st.none() | st.integers(1, 60))
def test_a_sample_is_the_same_each_time_and_holds_no_row_twice(
    seed: int, limit: int | None
) -> None:
    drawn = select_rows(ROWS, seed=seed, limit=limit)

    assert drawn == select_rows(tuple(reversed(ROWS)), seed=seed, limit=limit)
    assert len({row.id for row in drawn}) == len(drawn) == min(40, limit or 40)


def test_another_seed_draws_another_sample() -> None:
    assert len({select_rows(ROWS, seed=n, limit=5)[0].id for n in range(20)}) > 5


@given(seed=st.integers(0, 1000))
def test_twins_are_drawn_together(seed: int) -> None:
    pairs = [a_row(n, id=f"p{n // 2}-{n % 2}", twin=f"p{n // 2}-{1 - n % 2}") for n in range(30)]
    drawn = select_rows(pairs, seed=seed, limit=10)

    assert set(Counter(row.id.partition("-")[0] for row in drawn).values()) == {2}


def test_rows_are_found_by_id_in_any_order(tmp_path: Path) -> None:
    rows = pairs()
    run = a_run(tmp_path / "run", rows=rows)

    with RowIndex(run) as index:
        assert [index[row.id] for row in reversed(rows)] == list(reversed(rows))
        assert list(index) == rows
        assert len(index) == len(rows)
        assert rows[0].id in index
        assert "other" not in index


def test_an_id_of_another_run_is_an_error(tmp_path: Path) -> None:
    with (
        RowIndex(a_run(tmp_path / "run")) as index,
        pytest.raises(RunError, match="not a row of this run"),
    ):
        index["other"]


def test_a_damaged_file_of_rows_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / ROWS_FILE).write_bytes(b"{}\n")

    with pytest.raises(RunError, match="not a row"):
        RowIndex(run)


def test_a_missing_file_of_rows_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.folder / ROWS_FILE).unlink()

    with pytest.raises(RunError, match="cannot read the rows"):
        RowIndex(run)
