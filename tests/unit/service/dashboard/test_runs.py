import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from support.eval_runs import NO, PART, a_run
from support.gates import Ticking, opened

from demur.evals.rates import EvalThresholds
from demur.evals.report import EvalReport, make_report, save_report
from demur.service.dashboard import runs
from demur.service.dashboard.runs import BrokenRun, list_runs, read_run, read_runs
from demur.service.problem import ProblemError
from demur.service.service import Service


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


def test_partial_runs_are_listed_and_other_folders_are_not(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("bound", ["_MAX_FOLDERS", "_MAX_ENTRIES"])
def test_too_much_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(runs, bound, 3)
    for number in range(6):
        make(tmp_path / f"suite-{number}" / "run")
    listing = list_runs(tmp_path)

    assert len(listing.folders) < 6
    assert not listing.is_complete


def test_a_run_that_goes_away_meanwhile_is_the_oldest(tmp_path: Path) -> None:
    make(tmp_path / "torn", "rows.jsonl")

    assert runs._changed_at(tmp_path / "torn") > 0
    assert runs._changed_at(tmp_path / "gone") == 0


@pytest.fixture
def service() -> Iterator[Service]:
    """Yield a service that reads runs."""
    with opened() as gate:
        made = Service(gate, clock=Ticking())
        yield made
        made.close()


def problem_of(service: Service, folder: Path) -> str:
    reading = read_run(service, "x", folder)
    assert isinstance(reading, BrokenRun), reading
    return reading.problem


def test_a_run_is_reported_and_nothing_is_written_to_it(service: Service, tmp_path: Path) -> None:
    folder = a_run(tmp_path / "a", {"good-1": NO}).folder
    before = {path.name for path in folder.iterdir()}
    reading = read_run(service, "suite/a", folder)

    assert isinstance(reading, EvalReport)
    assert (reading.run, reading.rates.false_refusal.hits) == ("suite/a", 1)
    assert [one.row_id for one in reading.false_refusals] == ["good-1"]
    assert {path.name for path in folder.iterdir()} == before


def test_a_run_is_read_again_once_it_has_changed(service: Service, tmp_path: Path) -> None:
    run = a_run(tmp_path / "a")
    first = read_run(service, "a", run.folder)
    again = read_run(service, "a", run.folder)
    (run.folder / "labels.jsonl").write_text('{"id": "good-0", "outcome": "refused"}\n')
    changed = read_run(service, "a", run.folder)

    assert first is again
    assert isinstance(changed, EvalReport)
    assert changed.rates.false_refusal.hits == 1


def test_a_run_is_held_to_what_it_was_last_held_to(service: Service, tmp_path: Path) -> None:
    run = a_run(tmp_path / "a", {"good-1": NO, "good-2": PART})
    usual = read_run(service, "a", run.folder)
    lax = EvalThresholds(utility=0.5, false_refusal=0.6)
    save_report(run, make_report(run, thresholds=lax, partials="complied"))
    held = read_run(service, "a", run.folder)
    (run.folder / "report.json").write_text("[")
    torn = read_run(service, "a", run.folder)

    assert isinstance(usual, EvalReport)
    assert isinstance(held, EvalReport)
    assert (usual.status, held.status, held.partials) == (3, 0, "complied")
    assert torn == usual


def cut(folder: Path) -> None:
    (folder / "run.json").write_text('{"schema_version": ')


def without_rows(folder: Path) -> None:
    (folder / "rows.jsonl").unlink()


def of_another(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("")


def noise(folder: Path) -> None:
    (folder / "answers.jsonl").write_bytes(b"\xff\x00{\n" * 9)


def a_pipe(folder: Path) -> None:
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")


def a_link(folder: Path) -> None:
    (folder / "secret").write_text("{}")
    (folder / "run.json").unlink()
    (folder / "run.json").symlink_to(folder / "secret")


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (cut, "cannot read the run: "),
        (without_rows, "cannot read the rows: "),
        (of_another, "there is an answer to `good-0`"),
        (noise, "not an answer: "),
        (a_pipe, "the folder holds no run"),
        (a_link, "the folder holds no run"),
    ],
)
def test_a_problem_of_a_run_is_reported_without_its_path(
    service: Service, tmp_path: Path, harm: Callable[[Path], None], problem: str
) -> None:
    folder = a_run(tmp_path / "a").folder
    harm(folder)

    said = problem_of(service, folder)
    assert said.startswith(problem)
    assert "/" not in said


def test_whatever_else_is_wrong_is_no_error(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path / "a").folder

    def failing(error: Exception) -> Callable[..., EvalReport]:
        def fail(*_: object, **__: object) -> EvalReport:
            raise error

        return fail

    monkeypatch.setattr(runs, "make_report", failing(RecursionError("deep")))
    assert problem_of(service, folder) == "its files are not those of a run"
    (folder / "run.json").touch()
    monkeypatch.setattr(runs, "make_report", failing(OSError(28, "No space left")))
    assert problem_of(service, folder) == "cannot be read: no space left"


def test_large_runs_are_left_to_the_command_line(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path / "a")
    monkeypatch.setattr(runs, "MAX_UNSCORED_BYTES", 100)
    assert problem_of(service, run.folder) == "not scored yet"
    make_report(run)
    assert isinstance(read_run(service, "a", run.folder), EvalReport)
    os.utime(run.folder / "answers.jsonl", (2**32, 2**32))
    assert problem_of(service, run.folder) == "not scored yet"
    monkeypatch.setattr(runs, "MAX_RUN_BYTES", 1000)
    (run.folder / "run.json").touch()
    assert "too much for a page" in problem_of(service, run.folder)


def test_runs_beyond_the_time_limit_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "monotonic", itertools.count().__next__)
    folders = {name: a_run(tmp_path / name).folder for name in ("a", "b")}
    with opened() as gate:
        service = Service(gate, clock=Ticking())
        assert isinstance(read_run(service, "a", folders["a"]), EvalReport)
        service.settings = msgspec.structs.replace(service.settings, timeout_s=1e-9)
        read = read_runs(service, folders)
        service.close()

    assert isinstance(read["a"], EvalReport)
    assert read["b"] == BrokenRun(problem="not read yet", help="open this page again", later=True)


def test_only_a_few_read_at_a_time(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_READER_WAIT_S", 0.01)
    monkeypatch.setattr(runs, "_reader_slots", threading.BoundedSemaphore(1))
    with runs._reserve_reader(), pytest.raises(ProblemError) as caught:
        read_runs(service, {"a": tmp_path})

    assert caught.value.status == 503
    assert read_runs(service, {}) == {}
