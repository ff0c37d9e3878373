"""Triage on this machine: pieces of work spread over processes, merged as they come back."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from demur.errors import DemurError
from demur.triage.counts import RefusalCounts, UnreadFile, merge_counts
from demur.triage.forks import WorkResult, run_in_forks
from demur.triage.inputs import STDIN, LogPiece, TriagePlan, plan_work
from demur.triage.options import TriageOptions
from demur.triage.pieces import ReportBytes, scan_piece
from demur.triage.scan import warm_kernel

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["default_jobs", "triage_logs"]

# Below this, starting a process takes longer than the work.
_MIN_PARALLEL_SIZE = 48 << 20
_QUEUED_PER_JOB = 4


def default_jobs() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def triage_logs(
    names: Iterable[str] | TriagePlan,
    options: TriageOptions,
    *,
    jobs: int | None = None,
    progress: ReportBytes | None = None,
    stdin: IO[bytes] | None = None,
) -> RefusalCounts:
    """Return the counts of the named files, folders and globs; `-` is standard input.

    Files that cannot be read are listed in `unread`, and the rest is counted. `progress` is
    called with the number of bytes read since the last call.
    """
    work = names if isinstance(names, TriagePlan) else plan_work(names)
    jobs = default_jobs() if jobs is None else jobs
    here = [piece for piece in work.pieces if piece.path == STDIN]
    elsewhere = [piece for piece in work.pieces if piece.path != STDIN]
    if jobs < 2 or work.size < _MIN_PARALLEL_SIZE or len(elsewhere) < 2:
        here, elsewhere = list(work.pieces), []
    total = RefusalCounts(unread=work.unread)
    for part in _scan_in_processes(elsewhere, options, jobs, progress):
        total = merge_counts([total, part], samples=options.samples)
    for piece in here:
        part = scan_piece(piece, options, progress, stdin)
        total = merge_counts([total, part], samples=options.samples)
    return total


def _scan_in_processes(
    pieces: list[LogPiece], options: TriageOptions, jobs: int, progress: ReportBytes | None
) -> Iterator[RefusalCounts]:
    if not pieces:
        return
    # Forking is fast, but a fork of a program with threads may hang.
    forks = hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1
    for done in (_scan_in_forks if forks else _scan_in_pool)(pieces, options, jobs):
        piece = pieces[done.position]
        if progress is not None:
            progress(piece.size)
        if done.killed:
            yield RefusalCounts(
                unread=(UnreadFile(piece.path, "the process that read it was killed"),)
            )
        else:
            yield done.result


def _scan_in_forks(
    pieces: list[LogPiece], options: TriageOptions, jobs: int
) -> Iterator[WorkResult]:
    plain = next((piece.path for piece in pieces if piece.high is not None), None)
    if plain is not None:
        # Build the filters before forking, to share them. The forks report unreadable files.
        with suppress(OSError, ValueError, DemurError):
            warm_kernel(options, plain)
    return run_in_forks(partial(scan_piece, options=options), pieces, jobs)


def _scan_in_pool(
    pieces: list[LogPiece], options: TriageOptions, jobs: int
) -> Iterator[WorkResult]:
    # Imported late, because it is slow to import and small logs need no processes.
    futures: Any = import_module("concurrent.futures")
    context = import_module("multiprocessing").get_context("spawn")
    waiting = iter(enumerate(pieces))
    with futures.ProcessPoolExecutor(min(jobs, len(pieces)), mp_context=context) as pool:
        running: dict[Future[RefusalCounts], int] = {}
        while True:
            for index, piece in islice(waiting, jobs * _QUEUED_PER_JOB - len(running)):
                running[pool.submit(scan_piece, piece, options)] = index
            if not running:
                return
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                yield _future_result(future, running.pop(future))


def _future_result(future: "Future[RefusalCounts]", index: int) -> WorkResult:
    try:
        return WorkResult(index, future.result())
    # `BrokenProcessPool`, caught by its base class, which needs no import.
    except RuntimeError:
        return WorkResult(index, killed=True)
