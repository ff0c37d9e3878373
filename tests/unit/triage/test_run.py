import io
import os
import threading
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from demur.triage import run as running
from demur.triage.counts import RefusalCounts, TriageOptions, UnreadFile
from demur.triage.inputs import expand_names, plan_work
from demur.triage.run import WorkResult, default_jobs, triage_logs

TEXT = TriageOptions()
LINE = b"REFUSED: RCE_RISK: x\n"


def logs(folder: Path, number: int) -> list[Path]:
    paths = [folder / f"{index}.log" for index in range(number)]
    for index, path in enumerate(paths):
        path.write_bytes(LINE * (index + 1) + b"too many requests\nREFUSED: NOPE_NOPE: y\n")
    return paths


def test_folders_globs_and_files_are_read_once_each(tmp_path: Path) -> None:
    paths = logs(tmp_path, 3)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.log").write_bytes(LINE)
    os.mkfifo(tmp_path / "deep" / "pipe")

    found = expand_names(
        [str(tmp_path), str(tmp_path / "*.log"), str(paths[0]), f"{tmp_path}/d*", "-"]
    )

    assert found == [*map(str, paths), str(tmp_path / "deep" / "more.log"), "-"]


def test_a_name_that_looks_like_a_glob_is_a_name_first(tmp_path: Path) -> None:
    path = tmp_path / "a[1].log"
    path.write_bytes(LINE)

    assert expand_names([str(path)]) == [str(path)]


def test_unreadable_inputs_are_reported_and_the_rest_is_counted(tmp_path: Path) -> None:
    [path] = logs(tmp_path, 1)
    names = [str(tmp_path / "none"), str(tmp_path / "*.nope"), "bad\0name", str(path)]

    counts = triage_logs(names, TEXT)

    assert counts.count_kinds() == 2
    assert [unread.reason for unread in counts.unread] == [
        "no file matches",
        "no such file or directory",
        "embedded null byte",
    ] or {unread.file for unread in counts.unread} == set(names[:3])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_reported(tmp_path: Path) -> None:  # pragma: no cover
    [path] = logs(tmp_path, 1)
    path.chmod(0)

    assert triage_logs([str(path)], TEXT).unread == (UnreadFile(str(path), "permission denied"),)


def test_a_file_that_disappears_is_reported(tmp_path: Path) -> None:
    paths = logs(tmp_path, 2)
    work = plan_work(map(str, paths))
    paths[0].unlink()

    counts = triage_logs(work, TEXT, jobs=1)

    assert counts.unread == (UnreadFile(str(paths[0]), "no such file or directory"),)
    assert counts.files == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_processes_count_what_one_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(running, "_MIN_PARALLEL_SIZE", 0)
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    names = list(map(str, [*logs(tmp_path, 5), tmp_path / "none"]))
    options = TriageOptions(samples=2)
    done: list[int] = []

    many = triage_logs(names, options, jobs=2, progress=done.append)

    assert many == triage_logs(names, options, jobs=1)
    assert sum(done) == many.size == plan_work(names).size
    assert many.unread


def test_large_files_are_cut_into_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.triage.inputs._RANGE_SIZE", 50)
    names = list(map(str, logs(tmp_path, 3)))

    work = plan_work(names)
    cut = triage_logs(work, TEXT, jobs=1)
    monkeypatch.undo()

    assert len(work.pieces) > 5
    assert cut == triage_logs(names, TEXT, jobs=1)
    assert cut.files == 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_killed_process_loses_only_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_MIN_PARALLEL_SIZE", 0)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(running, "scan_piece", _die)
    counts = triage_logs(list(map(str, logs(tmp_path, 2))), TEXT, jobs=2)

    assert {unread.reason for unread in counts.unread} == {"the process that read it was killed"}


def test_a_broken_pool_is_reported_like_a_killed_process() -> None:
    future: Future[RefusalCounts] = Future()
    future.set_exception(BrokenProcessPool())

    assert running._future_result(future, 3) == WorkResult(3, killed=True)


def _die(*_: object, **__: object) -> RefusalCounts:
    os._exit(9)


def test_standard_input_and_compressed_files_tell_their_progress(tmp_path: Path) -> None:
    gzip = __import__("gzip")
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(LINE))
    done: list[int] = []

    counts = triage_logs(["-", str(path)], TEXT, stdin=io.BytesIO(LINE * 2), progress=done.append)

    assert counts.count_kinds() == 3
    assert sum(done) == path.stat().st_size + 2 * len(LINE)


def test_a_missing_package_is_reported_for_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd rest")
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)

    [unread] = triage_logs([str(path)], TEXT).unread
    reason = "zstd needs the `zstandard` package: pip install 'demur[triage]'"
    assert unread.reason == reason


def test_there_is_at_least_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_jobs() >= 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert default_jobs() >= 1
