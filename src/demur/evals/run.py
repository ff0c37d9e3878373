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
from demur.evals.answer import Answer, failed
from demur.evals.run_answers import AnswerFile
from demur.evals.run_cache import Cache
from demur.evals.run_folder import Run, Work, begin, open_run
from demur.evals.run_manifest import RunError
from demur.evals.suite import Suite
from demur.evals.suite_row import Row
from demur.evals.target import Target
from demur.gate.clock import Clock, system_clock

__all__ = ["MOST_AT_ONCE", "Progress", "Run", "answer_row", "open_run", "run_suite"]

MOST_AT_ONCE = 4096
# If the first answers are all errors, the target is misconfigured, and more would not help.
_HOPELESS = 25
_SYNC_S = 1.0


class Progress(Protocol):
    """Shows the progress of a run."""

    def begin(self, total: int, done: int) -> None:
        """Start with the total number of rows, and the number already answered."""

    def answered(self, row: Row, answer: Answer) -> None:
        """Count an answer."""

    def end(self) -> None:
        """Finish, whether the run is complete or has failed."""


async def run_suite(
    suite: Suite,
    target: Target,
    folder: Path | str,
    *,
    concurrency: int = 16,
    limit: int | None = None,
    seed: int | None = None,
    clock: Clock = system_clock,
    progress: Progress | None = None,
    cache: Path | str | None = None,
) -> Run:
    """Run a suite against a target, and return the run once every row has been asked.

    A folder that holds this run already is resumed. `cache` is a folder of answers that runs
    share. The target stays open.

    Raises:
        RunError: The folder holds another run or cannot be used, or all first answers fail.
        InputError: A number is out of range.
    """
    if not 1 <= concurrency <= MOST_AT_ONCE:
        raise InputError(f"`concurrency` must be from 1 to {MOST_AT_ONCE}, not `{concurrency}`")
    with begin(suite, target, Path(folder), limit=limit, seed=seed, clock=clock) as work:
        watch = _Silent() if progress is None else progress
        watch.begin(work.total, work.total - work.left)
        try:
            kept = None if cache is None else Cache(Path(cache), work.run.manifest)
            with contextlib.closing(kept) if kept is not None else contextlib.nullcontext():
                await _ask_all(work, target, watch, kept, concurrency)
        finally:
            watch.end()
        return work.finished(clock())


async def _ask_all(
    work: Work, target: Target, watch: Progress, cache: Cache | None, concurrency: int
) -> None:
    hope = _Hope()

    async def ask_on() -> None:
        for row in work.rows:
            answer = None if cache is None else cache.get(row.id)
            if answer is None:
                answer = await answer_row(target, row)
                if cache is not None:
                    cache.put(answer)
            work.file.put(answer)
            watch.answered(row, answer)
            hope.after(answer)
            # Let other tasks run, even if the target never waits.
            await asyncio.sleep(0)

    async with _syncing(work.file):
        tasks = [asyncio.create_task(ask_on()) for _ in range(min(concurrency, work.left))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def answer_row(target: Target, row: Row) -> Answer:
    """Return a target's answer to a row; an exception becomes an answer with an error."""
    try:
        answer = await target.answer(row)
    except Exception as error:  # noqa: BLE001 - any exception of a target is this row's error
        return failed(row.id, "target", f"{type(error).__name__}: {error}")
    # INVARIANT: an answer with an error carries no text.
    if answer.error is not None and answer.text:
        return msgspec.structs.replace(answer, text="")
    return answer


class _Hope:
    """Stops a run whose first answers are all errors."""

    def __init__(self) -> None:
        self._errors: int | None = 0

    def after(self, answer: Answer) -> None:
        if answer.error is None:
            self._errors = None
        elif self._errors is not None:
            self._errors += 1
            if self._errors == _HOPELESS:
                raise RunError(
                    f"the first {_HOPELESS} answers are all errors: "
                    f"{answer.error_kind}: {answer.error}",
                    help="fix the target, then resume with the same command",
                )


@contextlib.asynccontextmanager
async def _syncing(file: AnswerFile) -> AsyncIterator[None]:
    """Sync answers to the disk at intervals while the body runs."""

    async def sync_on() -> None:
        while True:
            await asyncio.sleep(_SYNC_S)
            await asyncio.to_thread(file.sync)

    task = asyncio.create_task(sync_on())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class _Silent:
    """Shows nothing."""

    def begin(self, total: int, done: int) -> None: ...

    def answered(self, row: Row, answer: Answer) -> None: ...

    def end(self) -> None: ...
