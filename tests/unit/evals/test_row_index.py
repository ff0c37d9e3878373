from pathlib import Path

import pytest
from eval_runs import a_run, pairs

from demur.evals.row_index import RowIndex
from demur.evals.run_folder import ROWS_FILE
from demur.evals.run_manifest import RunError


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
