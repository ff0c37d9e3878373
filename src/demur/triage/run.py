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
from demur.triage.counts import Counts, Unread, merge
from demur.triage.forks import Done, run_in_forks
from demur.triage.inputs import STDIN, Piece, Plan, plan
from demur.triage.options import Options
from demur.triage.pieces import Progress, scan_piece
from demur.triage.scan import warm

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["default_jobs", "triage"]

# Below this, starting a process takes longer than the work.
_SMALL = 48 << 20
_AHEAD = 4


def default_jobs() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def triage(
    names: Iterable[str] | Plan,
    options: Options,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    stdin: IO[bytes] | None = None,
) -> Counts:
    """Return the counts of the named files, folders and globs; `-` is standard input.

    Files that cannot be read are listed in `unread`, and the rest is counted. `progress` is
    called with the number of bytes read since the last call.
    """
    work = names if isinstance(names, Plan) else plan(names)
    jobs = default_jobs() if jobs is None else jobs
    here = [piece for piece in work.pieces if piece.path == STDIN]
    elsewhere = [piece for piece in work.pieces if piece.path != STDIN]
    if jobs < 2 or work.size < _SMALL or len(elsewhere) < 2:
        here, elsewhere = list(work.pieces), []
    total = Counts(unread=work.unread)
    for part in _in_processes(elsewhere, options, jobs, progress):
        total = merge([total, part], samples=options.samples)
    for piece in here:
        part = scan_piece(piece, options, progress, stdin)
        total = merge([total, part], samples=options.samples)
    return total


def _in_processes(
    pieces: list[Piece], options: Options, jobs: int, progress: Progress | None
) -> Iterator[Counts]:
    if not pieces:
        return
    # Forking is fast, but a fork of a program with threads may hang.
    forks = hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1
    for done in (_forked if forks else _spawned)(pieces, options, jobs):
        piece = pieces[done.position]
        if progress is not None:
            progress(piece.size)
        if done.killed:
            yield Counts(unread=(Unread(piece.path, "the process that read it was killed"),))
        else:
            yield done.result


def _forked(pieces: list[Piece], options: Options, jobs: int) -> Iterator[Done]:
    plain = next((piece.path for piece in pieces if piece.high is not None), None)
    if plain is not None:
        # Build the filters before forking, to share them. The forks report unreadable files.
        with suppress(OSError, ValueError, DemurError):
            warm(options, plain)
    return run_in_forks(partial(scan_piece, options=options), pieces, jobs)


def _spawned(pieces: list[Piece], options: Options, jobs: int) -> Iterator[Done]:
    # Imported late, because it is slow to import and small logs need no processes.
    futures: Any = import_module("concurrent.futures")
    context = import_module("multiprocessing").get_context("spawn")
    waiting = iter(enumerate(pieces))
    with futures.ProcessPoolExecutor(min(jobs, len(pieces)), mp_context=context) as pool:
        running: dict[Future[Counts], int] = {}
        while True:
            for index, piece in islice(waiting, jobs * _AHEAD - len(running)):
                running[pool.submit(scan_piece, piece, options)] = index
            if not running:
                return
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                yield _result(future, running.pop(future))


def _result(future: "Future[Counts]", index: int) -> Done:
    try:
        return Done(index, future.result())
    # `BrokenProcessPool`, caught by its base class, which needs no import.
    except RuntimeError:
        return Done(index, killed=True)
