import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.eval_rows import Scripted, a_row, a_suite, wait
from support.property_runs import examples

from demur.errors import InputError
from demur.evals.run import (
    BarProgress,
    LineProgress,
    ProgressTally,
    RunProgress,
    answer_row,
    make_progress,
    run_suite,
)
from demur.evals.run_files import RunError
from demur.evals.run_folder import EvalRun, open_run
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer, error_answer
from demur.testing.model_server import ModelServer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(folder: Path, target: Any = None, count: int = 10, **settings: Any) -> EvalRun:
    chosen = Scripted() if target is None else target
    given = {"clock": lambda: NOW, "concurrency": 4, **settings}
    done = wait(run_suite(a_suite(count), chosen, folder, **given))
    assert isinstance(done, EvalRun)
    return done


def test_every_row_is_answered_once_and_the_folder_tells_it(tmp_path: Path) -> None:
    target = Scripted()
    done = run(tmp_path / "a/b", target)
    again = open_run(tmp_path / "a/b")

    assert sorted(target.asked) == sorted(row.id for row in a_suite().rows)
    assert sorted(answer.row_id for answer in again.iter_answers()) == sorted(target.asked)
    assert tuple(again.iter_rows()) == a_suite().rows
    assert again == done
    assert done.is_complete
    manifest = json.loads((tmp_path / "a/b/run.json").read_text(encoding="utf-8"))
    assert manifest["schema_version"] == "eval_run.v1"
    assert manifest["suite"]["digest"] == a_suite().digest
    assert manifest["target"] == {"name": "scripted", "settings": {"kind": "scripted"}}
    assert manifest["started_at"] == "2026-01-02T03:04:05.000Z"


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_rows_run_at_once_than_the_concurrency_allows(tmp_path: Path, most: int) -> None:
    target = Scripted()
    run(tmp_path / "run", target, concurrency=most)

    assert target.most == most


def test_a_finished_run_asks_nothing_again(tmp_path: Path) -> None:
    run(tmp_path / "run")
    target = Scripted()
    done = run(tmp_path / "run", target, clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))

    assert target.asked == []
    assert done.manifest.finished_at == "2026-01-02T03:04:05.000Z"


def test_a_failed_row_is_retried_and_has_one_answer_in_the_end(tmp_path: Path) -> None:
    def flaky(row: EvalRow) -> TargetAnswer:
        if row.id in {"r3", "r7"}:
            return error_answer(row.id, "http", "it broke")
        return TargetAnswer(row_id=row.id, text="Sure.")

    first = run(tmp_path / "run", Scripted(flaky))
    assert sum(answer.error is not None for answer in first.iter_answers()) == 2
    target = Scripted()
    second = run(tmp_path / "run", target)

    assert sorted(target.asked) == ["r3", "r7"]
    answers = list(second.iter_answers())
    assert len(answers) == 10
    assert not [answer for answer in answers if answer.error]


class Stopping:
    """A target that stops its run after so many answers."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, row: EvalRow) -> TargetAnswer:
        """Return an answer, as long as there are any."""
        self.after -= 1
        if self.after < 0:
            raise KeyboardInterrupt
        return TargetAnswer(row_id=row.id, text="Sure.")


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", Scripted(Stopping(5)), concurrency=1)
    assert not open_run(tmp_path / "run").is_complete
    target = Scripted()
    done = run(tmp_path / "run", target)

    assert len(target.asked) == 5
    assert len(list(done.iter_answers())) == 10
    assert done.is_complete


def test_a_torn_last_line_is_dropped_and_its_row_is_run_again(tmp_path: Path) -> None:
    run(tmp_path / "run", concurrency=1)
    path = tmp_path / "run/answers.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert len(list(open_run(tmp_path / "run").iter_answers())) == 9
    target = Scripted()
    done = run(tmp_path / "run", target)

    assert target.asked == ["r9"]
    assert len(list(done.iter_answers())) == 10


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": 11}, "suite `small 1`, whose rows have changed"),
        ({"target": Scripted(settings={"kind": "other"})}, "target `scripted`.* in kind"),
        ({"limit": 3}, "limit `None`, now `3`"),
        ({"seed": 3}, "seed `None`, now `3`"),
    ],
)
def test_another_suite_target_or_sample_is_refused_in_the_same_folder(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    run(tmp_path / "run")
    before = (tmp_path / "run/answers.jsonl").read_bytes()
    with pytest.raises(RunError, match=problem) as caught:
        run(tmp_path / "run", **change)

    assert "--out" in str(caught.value.help)
    assert (tmp_path / "run/answers.jsonl").read_bytes() == before


def test_a_limit_and_a_seed_choose_rows_the_same_each_time(tmp_path: Path) -> None:
    chosen = []
    for name in "ab":
        target = Scripted()
        run(tmp_path / name, target, limit=4, seed=5, concurrency=1)
        chosen.append(target.asked)

    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 4
    assert chosen[0] != ["r0", "r1", "r2", "r3"]
    assert [row.id for row in open_run(tmp_path / "a").iter_rows()] == chosen[0]


def test_a_target_that_never_works_ends_the_run_early_and_it_can_go_on(tmp_path: Path) -> None:
    target = Scripted(lambda row: error_answer(row.id, "http", "status 401"))
    with pytest.raises(RunError, match="first 25 answers are all errors: http: status 401"):
        run(tmp_path / "run", target, 1000, concurrency=8)
    assert len(target.asked) < 50

    done = run(tmp_path / "run", None, 1000)
    assert sum(answer.error is None for answer in done.iter_answers()) == 1000


def test_errors_after_an_answer_do_not_end_a_run(tmp_path: Path) -> None:
    def mostly(row: EvalRow) -> TargetAnswer:
        return (
            TargetAnswer(row_id=row.id)
            if row.id == "r0"
            else error_answer(row.id, "http", "broken")
        )

    done = run(tmp_path / "run", Scripted(mostly), 60, concurrency=1)
    assert sum(answer.error is not None for answer in done.iter_answers()) == 59


@settings(max_examples=examples(30))
@given(text=st.text(max_size=20), error=st.none() | st.text(max_size=20), fails=st.booleans())
def test_an_error_is_never_text(text: str, error: str | None, fails: bool) -> None:
    """INVARIANT: an answer with an error carries no text."""

    def said(row: EvalRow) -> TargetAnswer:
        if fails:
            raise ValueError(text)
        kind: Any = None if error is None else "http"
        return TargetAnswer(row_id=row.id, text=text, error=error, error_kind=kind)

    [row] = a_suite(1).rows
    answer = wait(answer_row(Scripted(said), row))

    assert answer.error is None or answer.text == ""
    assert answer.error is not None or (not fails and answer.text == text)


def test_an_exception_of_a_target_is_an_error_of_its_row(tmp_path: Path) -> None:
    def broken(row: EvalRow) -> TargetAnswer:
        raise ConnectionError(row.id)

    done = run(tmp_path / "run", Scripted(broken), 2)
    assert sorted(str(answer.error) for answer in done.iter_answers()) == [
        "ConnectionError: r0",
        "ConnectionError: r1",
    ]


def test_a_cache_spares_what_was_answered_before(tmp_path: Path) -> None:
    def flaky(row: EvalRow) -> TargetAnswer:
        return (
            error_answer(row.id, "http", "?")
            if row.id == "r4"
            else TargetAnswer(row_id=row.id, text="a")
        )

    run(tmp_path / "first", Scripted(flaky), cache=tmp_path / "cache")
    target = Scripted()
    done = run(tmp_path / "second", target, cache=tmp_path / "cache", limit=8)
    other = Scripted(settings={"kind": "other"})
    run(tmp_path / "third", other, cache=tmp_path / "cache")

    assert target.asked == ["r4"]
    assert len(list(done.iter_answers())) == 8
    assert len(other.asked) == 10


class Watch(RunProgress):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin(self, total: int, done: int) -> None:
        """Keep what is to do."""
        self.seen.append((total, done))

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Keep which row it was."""
        assert row.id == answer.row_id
        self.seen.append(row.id)

    def end(self) -> None:
        """Keep that it ended."""
        self.seen.append("end")


def test_progress_is_notified_of_every_answer(tmp_path: Path) -> None:
    watch = Watch()
    watched: RunProgress = watch
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", Scripted(Stopping(2)), 3, concurrency=1, progress=watched)
    run(tmp_path / "run", None, 3, concurrency=1, progress=watched)

    assert watch.seen == [(3, 0), "r0", "r1", "end", (3, 2), "r2", "end"]


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"concurrency": 10**6}, {"limit": 0}])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not `"):
        run(tmp_path / "run", **wrong)


def test_answers_reach_the_disk_while_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr("demur.evals.run._SYNC_INTERVAL_S", 0.01)

    def sync(number: int) -> None:
        synced.append(number)
        real(number)

    monkeypatch.setattr(os, "fsync", sync)

    async def slow(row: EvalRow) -> TargetAnswer:
        await asyncio.sleep(0.02)
        return TargetAnswer(row_id=row.id)

    run(tmp_path / "run", Scripted(slow), 6, concurrency=1)
    assert len(synced) > 3


PROGRAM = """
import asyncio, sys
from demur.evals.run import run_suite
from demur.evals.suite import load_suite
from demur.evals.targets import open_target

url, suite, folder = sys.argv[1:]
asyncio.run(run_suite(load_suite(suite), open_target(url), folder, concurrency=8))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_killed_run_loses_at_most_what_was_under_way(tmp_path: Path) -> None:
    rows = [
        json.dumps({"id": r.id, "prompt": r.prompt, "label": r.label}) for r in a_suite(300).rows
    ]
    head = json.dumps({"schema_version": "eval_suite.v1", "name": "small", "version": "1"})
    (tmp_path / "suite.jsonl").write_text("\n".join([head, *rows]), encoding="utf-8")
    folder = tmp_path / "run"
    answers = folder / "answers.jsonl"
    with ModelServer(persona="echo", latency_s=0.03) as server:
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            server.url,
            str(tmp_path / "suite.jsonl"),
            str(folder),
        ]
        kills = 0
        for _ in range(10):
            before = answers.stat().st_size if answers.exists() else 0
            with subprocess.Popen(command) as process:
                while process.poll() is None and kills < 3:
                    if answers.exists() and answers.stat().st_size > before + 10_000:
                        process.send_signal(signal.SIGKILL)
                        kills += 1
                        break
                    time.sleep(0.005)
                if process.wait() == 0:
                    break
        done = open_run(folder)

        assert kills == 3
        assert sorted(a.row_id for a in done.iter_answers()) == sorted(
            r.id for r in a_suite(300).rows
        )
        assert server.requests <= 300 + 8 * kills
    assert done.is_complete


def test_a_temporary_folder_will_do() -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert len(list(run(Path(folder)).iter_answers())) == 10


REFUSAL = "I'm sorry, but I can't help with that."


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def said(number: int, text: str = "Sure.", **more: Any) -> tuple[Any, TargetAnswer]:
    return a_row(number), TargetAnswer(row_id=f"r{number}", text=text, **more)


def test_the_summary_shows_speed_time_left_rates_and_errors() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(10, 2)
    assert tally.summary == ""
    for row, answer in (said(1, REFUSAL), said(2), said(3), said(4, REFUSAL)):
        clock.now += 0.5
        tally.add_answer(row, answer)

    assert tally.summary == "2/s, 2 s left, refused: harmful 50 %, legitimate 50 %"
    tally.add_answer(a_row(5), error_answer("r5", "http", "broken"))
    assert tally.summary.endswith(", 1 error")
    tally.add_answer(a_row(6), error_answer("r6", "http", "broken"))
    assert tally.summary.endswith(", 2 errors")
    assert (tally.done, tally.errors) == (8, 2)


def test_a_providers_own_word_counts_as_a_refusal() -> None:
    tally = ProgressTally(Clock())
    message = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    tally.add_answer(*said(1, "", native=message))

    assert "harmful 100 %" in tally.summary


def test_judging_does_not_slow_a_fast_run_down() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(1000, 0)
    for number in range(1000):
        clock.now += 0.0001
        tally.add_answer(*said(number))

    assert sum(judged for _, judged in tally._judged.values()) <= 21


@pytest.mark.parametrize(("left", "words"), [(50, "50 s"), (600, "10 min"), (36_000, "10.0 h")])
def test_the_summary_rounds_long_times(left: int, words: str) -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(left + 1, 0)
    clock.now += 1
    tally.add_answer(*said(0))

    assert f"{words} left" in tally.summary


def test_on_a_terminal_a_bar_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    clock, terminal = Clock(), Terminal()
    bar = BarProgress(terminal, clock)
    bar.begin(4, 1)
    clock.now += 1
    bar.add_answer(*said(1))
    bar.add_answer(*said(2))
    bar.end()
    drawn = terminal.getvalue().split("\r\x1b[K")

    assert drawn[1] == "█████░░░░░░░░░░░░░░░ 1/4 (25%)  "
    assert drawn[2].startswith("██████████░░░░░░░░░░ 2/4 (50%)  1/s, 2 s left")
    assert len(drawn) == 4
    assert drawn[3].endswith("\n")
    assert max(map(len, drawn)) <= 60


def test_a_run_without_rows_draws_an_empty_bar() -> None:
    terminal = Terminal()
    BarProgress(terminal, Clock()).begin(0, 0)

    assert "0/0 (0%)" in terminal.getvalue()


def test_elsewhere_a_line_comes_now_and_then() -> None:
    clock, log = Clock(), io.StringIO()
    lines = LineProgress(log, clock)
    lines.begin(4, 1)
    lines.add_answer(*said(1))
    clock.now += 10
    lines.add_answer(*said(2))
    lines.end()

    assert log.getvalue().splitlines() == [
        "resuming: 1 of 4 rows are answered",
        "3 of 4 answered, 0.2/s, 5 s left, refused: harmful 0 %, legitimate 0 %",
    ]
    quiet = io.StringIO()
    LineProgress(quiet, clock).begin(4, 0)
    assert quiet.getvalue() == ""


def test_the_stream_decides_which_it_is() -> None:
    assert isinstance(make_progress(Terminal()), BarProgress)
    assert isinstance(make_progress(io.StringIO()), LineProgress)
