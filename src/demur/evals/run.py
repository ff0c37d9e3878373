"""A run: a suite put to a target, in a folder, that can be stopped and gone on with.

At most as many rows as `concurrency` are under way; killing a run loses those and no others.
What failed is asked again when the run goes on, so every row has one answer in the end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import msgspec

from demur.errors import InputError
from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.run_answers import AnswerFile
from demur.evals.run_cache import AnswerCache
from demur.evals.run_folder import EvalRun, PendingRun, begin_run, open_run
from demur.evals.run_manifest import RunError
from demur.evals.suite import EvalSuite
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget
from demur.gate.clock import Clock, system_clock

__all__ = ["MAX_CONCURRENCY", "RunProgress", "EvalRun", "answer_row", "open_run", "run_suite"]

MAX_CONCURRENCY = 4096
# If the first answers are all errors, the target is misconfigured, and more would not help.
_MAX_FIRST_ERRORS = 25
_SYNC_INTERVAL_S = 1.0


class RunProgress(Protocol):
    """Shows the progress of a run."""

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
        watch = _NoProgress() if progress is None else progress
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
    hope = _ErrorStreak()

    async def ask_on() -> None:
        for row in work.rows:
            answer = None if cache is None else cache.get_answer(row.id)
            if answer is None:
                answer = await answer_row(target, row)
                if cache is not None:
                    cache.put_answer(answer)
            work.file.append_answer(answer)
            progress.add_answer(row, answer)
            hope.check_answer(answer)
            # Let other tasks run, even if the target never waits.
            await asyncio.sleep(0)

    async with _sync_regularly(work.file):
        tasks = [asyncio.create_task(ask_on()) for _ in range(min(concurrency, work.left))]
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


class _ErrorStreak:
    """Stops a run whose first answers are all errors."""

    def __init__(self) -> None:
        self._errors: int | None = 0

    def check_answer(self, answer: TargetAnswer) -> None:
        if answer.error is None:
            self._errors = None
        elif self._errors is not None:
            self._errors += 1
            if self._errors == _MAX_FIRST_ERRORS:
                raise RunError(
                    f"the first {_MAX_FIRST_ERRORS} answers are all errors: "
                    f"{answer.error_kind}: {answer.error}",
                    help="fix the target, then resume with the same command",
                )


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


class _NoProgress:
    """Shows nothing."""

    def begin(self, total: int, done: int) -> None: ...

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None: ...

    def end(self) -> None: ...
