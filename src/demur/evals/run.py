"""Run a suite against a target, in a folder, and resume it after a stop.

At most `concurrency` rows are in flight; killing a run loses those and no others. Failed rows
are asked again when the run resumes, so every row has one answer in the end. Progress is shown
as a bar on a terminal and as an occasional line elsewhere.
"""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

import msgspec

from demur.detect.detector import detect_refusal
from demur.errors import InputError
from demur.evals.run_files import AnswerCache, AnswerFile, RunError
from demur.evals.run_folder import EvalRun, PendingRun, begin_run
from demur.evals.suite import EvalSuite
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget, TargetAnswer, error_answer
from demur.gate.clock import Clock, system_clock
from demur.providers.normalization import normalize

Item = TypeVar("Item")
MAX_CONCURRENCY = 4096
# If the first answers are all errors, the target is misconfigured, and more would not help.
_MAX_FIRST_ERRORS = 25
_SYNC_INTERVAL_S = 1.0


class RunProgress:
    """Receives the progress of a run; this base class shows nothing."""

    def begin(self, total: int, done: int) -> None:
        """Start with the total number of rows, and the number already answered."""

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer."""

    def end(self) -> None:
        """Finish, whether the run is complete or has failed."""


async def run_suite(
    suite: EvalSuite,
    target: EvalTarget,
    folder: Path | str,
    *,
    concurrency: int = 16,
    limit: int | None = None,
    seed: int | None = None,
    clock: Clock = system_clock,
    progress: RunProgress | None = None,
    cache: Path | str | None = None,
) -> EvalRun:
    """Run a suite against a target, and return the run once every row has been asked.

    A folder that holds this run already is resumed. `cache` is a folder of answers that runs
    share. The target stays open.

    Raises:
        RunError: The folder holds another run or cannot be used, or all first answers fail.
        InputError: A number is out of range.
    """
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InputError(f"`concurrency` must be from 1 to {MAX_CONCURRENCY}, not `{concurrency}`")
    with begin_run(suite, target, Path(folder), limit=limit, seed=seed, clock=clock) as work:
        watch = RunProgress() if progress is None else progress
        watch.begin(work.total, work.total - work.left)
        try:
            kept = None if cache is None else AnswerCache(Path(cache), work.run.manifest)
            with contextlib.closing(kept) if kept is not None else contextlib.nullcontext():
                await _ask_all(work, target, watch, kept, concurrency)
        finally:
            watch.end()
        return work.finish_run(clock())


async def _ask_all(
    work: PendingRun,
    target: EvalTarget,
    progress: RunProgress,
    cache: AnswerCache | None,
    concurrency: int,
) -> None:
    errors: int | None = 0

    async def ask(row: EvalRow) -> None:
        nonlocal errors
        answer = None if cache is None else cache.get_answer(row.id)
        if answer is None:
            answer = await answer_row(target, row)
            if cache is not None:
                cache.put_answer(answer)
        work.file.append_answer(answer)
        progress.add_answer(row, answer)
        errors = None if answer.error is None or errors is None else errors + 1
        if errors == _MAX_FIRST_ERRORS:
            raise RunError(
                f"the first {errors} answers are all errors: {answer.error_kind}: {answer.error}",
                help="fix the target, then resume with the same command",
            )
        # Let other tasks run, even if the target never waits.
        await asyncio.sleep(0)

    async with _sync_regularly(work.file):
        await run_concurrently(ask, work.rows, min(concurrency, work.left))


async def run_concurrently(
    work: Callable[[Item], Awaitable[None]], items: Iterator[Item], concurrency: int
) -> None:
    """Await `work` for each item, at most `concurrency` at a time; the first error ends all."""

    async def work_on() -> None:
        for item in items:
            await work(item)

    tasks = [asyncio.create_task(work_on()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answer_row(target: EvalTarget, row: EvalRow) -> TargetAnswer:
    """Return a target's answer to a row; an exception becomes an answer with an error."""
    try:
        answer = await target.answer(row)
    except Exception as error:  # noqa: BLE001 - any exception of a target is this row's error
        return error_answer(row.id, "target", f"{type(error).__name__}: {error}")
    # INVARIANT: an answer with an error carries no text.
    if answer.error is not None and answer.text:
        return msgspec.structs.replace(answer, text="")
    return answer


@contextlib.asynccontextmanager
async def _sync_regularly(file: AnswerFile) -> AsyncIterator[None]:
    """Sync answers to the disk at intervals while the body runs."""

    async def sync_on() -> None:
        while True:
            await asyncio.sleep(_SYNC_INTERVAL_S)
            await asyncio.to_thread(file.sync)

    task = asyncio.create_task(sync_on())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


_DRAW_INTERVAL_S, _LINE_INTERVAL_S = 0.1, 10.0
# Judging must not slow the run down: at most one answer in this interval.
_JUDGE_INTERVAL_S = 0.005
_BAR_WIDTH = 20
Timer = Callable[[], float]


class ProgressTally(RunProgress):
    """Counts, speed and rough rates of a run so far; the report counts all answers."""

    def __init__(self, timer: Timer = time.monotonic) -> None:
        self._timer = timer
        self._began = self._shown = timer()
        self._judged_at = float("-inf")
        self.total = self.done = self.errors = self.answered_now = 0
        self._judged = {"harmful": [0, 0], "legitimate": [0, 0]}

    def begin(self, total: int, done: int) -> None:
        """Start the clock."""
        self.total, self.done = total, done
        self._began = self._shown = self._timer()

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and judge it if there is time."""
        self.done += 1
        self.answered_now += 1
        if answer.error is not None:
            self.errors += 1
            return
        moment = self._timer()
        if moment - self._judged_at >= _JUDGE_INTERVAL_S:
            counts = self._judged[row.label]
            native = answer.native is not None and normalize(answer.native) is not None
            counts[0] += native or detect_refusal(answer.text, row.prompt).is_refusal
            counts[1] += 1
            self._judged_at = moment

    @property
    def speed(self) -> float:
        """Answers per second since the run was started or resumed."""
        return self.answered_now / max(self._timer() - self._began, 1e-9)

    @property
    def summary(self) -> str:
        """Speed, time left, rates and errors in one line."""
        left = self.total - self.done
        parts = [f"{self.speed:.3g}/s"] if self.answered_now else []
        if self.answered_now and left:
            parts.append(f"{_format_duration(left / self.speed)} left")
        rates = [
            f"{label} {100 * refused / judged:.0f} %"
            for label, (refused, judged) in self._judged.items()
            if judged
        ]
        if rates:
            parts.append(f"refused: {', '.join(rates)}")
        if self.errors:
            parts.append(f"{self.errors} error{'s' * (self.errors != 1)}")
        return ", ".join(parts)


class BarProgress(ProgressTally):
    """A progress bar on a terminal."""

    def __init__(self, stream: TextIO, timer: Timer = time.monotonic) -> None:
        super().__init__(timer)
        self._stream = stream

    def begin(self, total: int, done: int) -> None:
        """Draw the bar."""
        super().begin(total, done)
        self._draw()

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and redraw the bar at intervals."""
        super().add_answer(row, answer)
        if self._timer() - self._shown >= _DRAW_INTERVAL_S:
            self._draw()

    def end(self) -> None:
        """Draw the bar a last time, and leave it there."""
        self._draw("\n")

    def _draw(self, end: str = "") -> None:
        self._shown = self._timer()
        share = self.done / max(self.total, 1)
        full = int(share * _BAR_WIDTH)
        bar = "█" * full + "░" * (_BAR_WIDTH - full)
        line = f"{bar} {self.done}/{self.total} ({share:.0%})  {self.summary}"
        room = shutil.get_terminal_size((88, 24)).columns - 1
        self._stream.write(f"\r\x1b[K{line[:room]}{end}")
        self._stream.flush()


class LineProgress(ProgressTally):
    """A plain line at intervals, for logs."""

    def __init__(self, stream: TextIO, timer: Timer = time.monotonic) -> None:
        super().__init__(timer)
        self._stream = stream

    def begin(self, total: int, done: int) -> None:
        """Report how many rows are answered already."""
        super().begin(total, done)
        if done:
            self._stream.write(f"resuming: {done} of {total} rows are answered\n")

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and report progress at intervals."""
        super().add_answer(row, answer)
        if self._timer() - self._shown >= _LINE_INTERVAL_S:
            self._shown = self._timer()
            self._stream.write(f"{self.done} of {self.total} answered, {self.summary}\n")
            self._stream.flush()


def make_progress(stream: TextIO) -> BarProgress | LineProgress:
    """Return the progress that suits a stream."""
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
