from pathlib import Path

import msgspec
import pytest
from support.eval_runs import NO, YES, a_run, pairs, unfinished

from demur.errors import InputError
from demur.evals.history import read_history
from demur.evals.run_files import MANIFEST_FILE, write_manifest


def test_runs_are_listed_oldest_first_with_what_changed(tmp_path: Path) -> None:
    a_run(tmp_path / "b", {"good-0": NO}, hours=1)
    a_run(tmp_path / "a", {"bad-0": YES}, hours=2)
    a_run(tmp_path / "deep/c", hours=0)

    found = read_history(tmp_path)

    assert [entry.run for entry in found.entries] == ["deep/c", "b", "a"]
    assert [entry.since for entry in found.entries] == [None, "deep/c", "b"]
    assert [entry.utility_change for entry in found.entries] == [None, -0.25, 0.25]
    assert [entry.safety_change for entry in found.entries] == [None, 0.0, -0.25]
    assert [entry.status for entry in found.entries] == [0, 3, 3]


def test_runs_of_other_targets_are_not_set_against_each_other(tmp_path: Path) -> None:
    a_run(tmp_path / "one", hours=0)
    other = a_run(tmp_path / "two", {"good-0": NO}, hours=1)
    target = msgspec.structs.replace(other.manifest.target, name="another")
    write_manifest(other.folder, msgspec.structs.replace(other.manifest, target=target))

    assert {entry.since for entry in read_history(tmp_path).entries} == {None}


def test_runs_of_other_rows_are_not_set_against_each_other(tmp_path: Path) -> None:
    a_run(tmp_path / "small", rows=pairs(2), hours=0)
    a_run(tmp_path / "large", hours=1)

    assert {entry.since for entry in read_history(tmp_path).entries} == {None}


def test_runs_may_be_chosen_by_suite_and_target(tmp_path: Path) -> None:
    a_run(tmp_path / "one")
    a_run(tmp_path / "two", suite="other")

    assert [entry.run for entry in read_history(tmp_path, suite="other").entries] == ["two"]
    assert len(read_history(tmp_path, target="scripted").entries) == 2
    with pytest.raises(InputError, match="no such run"):
        read_history(tmp_path, target="else")


def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    a_run(tmp_path / "good")
    broken = a_run(tmp_path / "bad")
    (broken.folder / MANIFEST_FILE).write_text("{", encoding="utf-8")

    found = read_history(tmp_path)

    assert [entry.run for entry in found.entries] == ["good"]
    assert len(found.problems) == 1
    assert "cannot read the run" in found.problems[0]


def test_a_run_itself_is_a_history_of_one(tmp_path: Path) -> None:
    run = unfinished(a_run(tmp_path / "only"), "good-0")

    [entry] = read_history(run.folder).entries
    assert (entry.run, entry.complete, entry.status) == ("only", False, 6)


def test_a_rate_that_was_not_measured_has_no_change(tmp_path: Path) -> None:
    rows = [row for row in pairs() if row.label == "harmful"]
    a_run(tmp_path / "a", rows=rows, hours=0)
    a_run(tmp_path / "b", rows=rows, hours=1)

    last = read_history(tmp_path).entries[-1]
    assert (last.safety_change, last.utility_change) == (0.0, None)


def test_there_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_history(tmp_path / "none")
