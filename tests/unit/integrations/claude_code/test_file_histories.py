import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.guards.tool_loop.history import RecordedCall, CallHistory
from demur.integrations.claude_code.file_histories import FileHistories


def now(histories: FileHistories, run: str = "s") -> CallHistory:
    return histories.update(run, lambda history: history)


def test_another_process_finds_what_was_kept(tmp_path: Path) -> None:
    FileHistories(tmp_path / "a" / "b").update(
        "s", lambda history: history.add(RecordedCall(name="Read", arguments={"x": 1}, at_s=2.0))
    )

    [call] = now(FileHistories(tmp_path / "a" / "b")).calls

    assert (call.name, call.arguments, call.at_s) == ("Read", {"x": 1}, 2.0)


def test_runs_are_kept_apart_whatever_they_are_called(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path)
    for run in ("../../etc/passwd", "s", "\ud800", "a" * 5000):
        histories.update(run, lambda history: history.add(RecordedCall(name="x")))

    assert all(file.parent == tmp_path for file in tmp_path.rglob("*"))
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert now(histories, "other").calls == ()


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    FileHistories(folder).update("s", lambda history: history)

    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"{", b'{"calls": 3}', b"\xff", b"[" * 100_000])
def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, content: bytes) -> None:
    histories = FileHistories(tmp_path)
    histories.update("s", lambda history: history.add(RecordedCall(name="x")))
    [file] = tmp_path.glob("*.json")
    file.write_bytes(content)

    assert now(histories).calls == ()


def test_no_change_is_lost_if_many_come_at_once(tmp_path: Path) -> None:
    def add(name: str) -> None:
        for _ in range(10):
            FileHistories(tmp_path).update(
                "s", lambda history: history.add(RecordedCall(name=name))
            )

    threads = [threading.Thread(target=add, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(now(FileHistories(tmp_path)).calls) == 40


def test_the_oldest_runs_are_dropped(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path, max_runs=3)
    for run in "abcde":
        histories.update(run, lambda history: history.add(RecordedCall(name="x")))

    assert len(list(tmp_path.glob("*.json"))) == 3
    assert now(histories, "e").calls != ()


def test_what_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="exists"):
        FileHistories(tmp_path / "file").update("s", lambda history: history)


def test_long_results_are_cut(tmp_path: Path) -> None:
    histories = FileHistories(tmp_path)
    histories.update("s", lambda history: history.add(RecordedCall(name="x", result="y" * 100_000)))
    [call] = now(histories).calls

    assert call.result == "y" * 8_000


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_a_history_stays_small(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """INVARIANT: a stored history never exceeds the limit, and its counts are complete."""
    folder = tmp_path_factory.mktemp("histories")
    histories = FileHistories(folder, max_bytes=4_000)
    for size in sizes:
        call = RecordedCall(name="x", arguments="y" * size)
        histories.update("s", partial(CallHistory.add, call=call))
    kept = now(histories)
    files = list(folder.glob("*.json"))

    assert all(file.stat().st_size <= 4_000 for file in files)
    assert kept.earlier.calls + len(kept.calls) == len(sizes)
