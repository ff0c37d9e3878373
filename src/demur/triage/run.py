"""Triage on this machine: pieces of work spread over processes, merged as they come back."""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from demur.errors import DemurError
from demur.triage.counts import Counts, Unread, merge
from demur.triage.inputs import STDIN, Piece, Plan, plan
from demur.triage.options import Options
from demur.triage.scan import scan_range, scan_stream, warm

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["default_jobs", "triage"]

Progress = Callable[[int], None]
# Below this, starting a process takes longer than the work.
_SMALL = 48 << 20
_AHEAD = 4


def default_jobs() -> int:
    """Return how many processes this one may keep busy."""
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
    """Return the counts of all that `names` stand for: files, folders, globs, `-`.

    What cannot be read is named in `unread`, and the rest is counted all the same.
    `progress` is called with the bytes that were read since the last call.
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
        part = _scan(piece, options, progress, stdin)
        total = merge([total, part], samples=options.samples)
    return total


def _in_processes(
    pieces: list[Piece], options: Options, jobs: int, progress: Progress | None
) -> Iterator[Counts]:
    if not pieces:
        return
    waiting = iter(pieces)
    # Slow to import, and small logs need no processes.
    futures: Any = import_module("concurrent.futures")
    with futures.ProcessPoolExecutor(min(jobs, len(pieces)), mp_context=_context(options)) as pool:
        running: dict[Future[Counts], Piece] = {}
        while True:
            for piece in islice(waiting, jobs * _AHEAD - len(running)):
                running[pool.submit(_scan, piece, options)] = piece
            if not running:
                return
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                piece = running.pop(future)
                if progress is not None:
                    progress(piece.size)
                yield _result(future, piece)


def _result(future: "Future[Counts]", piece: Piece) -> Counts:
    try:
        return future.result()
    # Its pool is broken then; a name of its own needs another import.
    except RuntimeError:
        return Counts(unread=(Unread(piece.path, "the process that read it was killed"),))


def _context(options: Options) -> Any:
    # A fork is quick, but of a program with threads it may hang.
    forks = hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1
    if forks:
        warm(options)
    return import_module("multiprocessing").get_context("fork" if forks else "spawn")


def _scan(
    piece: Piece,
    options: Options,
    progress: Progress | None = None,
    stdin: IO[bytes] | None = None,
) -> Counts:
    try:
        if piece.high is not None:
            return scan_range(piece.path, piece.low, piece.high, options, progress=progress)
        if piece.path == STDIN:
            source = sys.stdin.buffer if stdin is None else stdin
            return scan_stream(cast("io.RawIOBase", source), STDIN, options, progress=progress)
        with Path(piece.path).open("rb", buffering=0) as file:
            watched = file if progress is None else _Watched(file, progress)
            return scan_stream(cast("io.RawIOBase", watched), piece.path, options)
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
    except DemurError as error:
        reason = error.problem
    return Counts(unread=(Unread(piece.path, reason),))


class _Watched:
    """Tells how much of a compressed file was read, which is what its size is about."""

    def __init__(self, file: io.FileIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer."""
        got = self._file.readinto(buffer) or 0
        self._progress(got)
        return got
