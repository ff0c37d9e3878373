import os
from pathlib import Path

import pytest

from demur.service.dashboard import run_listing
from demur.service.dashboard.run_listing import list_runs


def make(folder: Path, file: str = "run.json", *, at: int = 0) -> None:
    folder.mkdir(parents=True)
    (folder / file).write_text("{}")
    os.utime(folder / file, (at, at))


def test_runs_are_named_by_their_folders_the_latest_first(tmp_path: Path) -> None:
    make(tmp_path / "old", at=1)
    make(tmp_path / "suite" / "new", at=3)
    make(tmp_path / "a" / "b" / "between", at=2)
    make(tmp_path / "a" / "b" / "c" / "too-deep", at=4)
    listing = list_runs(tmp_path)

    assert list(listing.folders) == ["suite/new", "a/b/between", "old"]
    assert listing.folders["suite/new"] == tmp_path / "suite" / "new"
    assert listing.is_complete


def test_what_is_left_of_a_run_is_listed_and_other_folders_are_not(tmp_path: Path) -> None:
    make(tmp_path / "torn", "answers.jsonl")
    make(tmp_path / "asked", "rows.jsonl")
    make(tmp_path / "notes", "notes.txt")
    make(tmp_path / ".hidden")
    (tmp_path / "run.txt").write_text("")

    assert set(list_runs(tmp_path).folders) == {"torn", "asked"}


def test_nothing_is_listed_where_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert list_runs(tmp_path / "missing").folders == {}
    assert list_runs(tmp_path / "file").folders == {}


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere" / "secret")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs" / "up").symlink_to(tmp_path / "elsewhere" / "secret")

    assert list_runs(tmp_path / "runs").folders == {}


def test_names_that_are_no_text_are_shown_as_well_as_can_be(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/bad-\xff"
    make(Path(os.fsdecode(raw)))

    assert list(list_runs(tmp_path).folders) == ["bad-?"]


@pytest.mark.parametrize("bound", ["_MOST_FOLDERS", "_MOST_ENTRIES"])
def test_too_much_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(run_listing, bound, 3)
    for number in range(6):
        make(tmp_path / f"suite-{number}" / "run")
    listing = list_runs(tmp_path)

    assert len(listing.folders) < 6
    assert not listing.is_complete


def test_a_run_that_goes_away_meanwhile_is_the_oldest(tmp_path: Path) -> None:
    make(tmp_path / "torn", "rows.jsonl")

    assert run_listing._changed_at(tmp_path / "torn") > 0
    assert run_listing._changed_at(tmp_path / "gone") == 0
