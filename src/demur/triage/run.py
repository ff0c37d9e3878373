"""Triage on this machine: pieces of work spread over processes, merged as they finish.

Importing and starting a pool of the standard library takes a tenth of the time that half a
gigabyte takes to scan, so forks are used where possible. A fork that dies loses only its item.
"""

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar, cast

from demur.errors import DemurError, error_reason
from demur.triage.counts import RefusalCounts, TriageOptions, UnreadFile, merge_counts
from demur.triage.inputs import STDIN, LogPiece, TriagePlan, plan_work
from demur.triage.scan import scan_range, scan_stream, warm_kernel

if TYPE_CHECKING:
    from concurrent.futures import Future


ReportBytes = Callable[[int], None]


def scan_piece(
    piece: LogPiece,
    options: TriageOptions,
    progress: ReportBytes | None = None,
    stdin: IO[bytes] | None = None,
    *,
    folder: str = "",
) -> RefusalCounts:
    """Return the counts of a piece, or the reason why it could not be read.

    Relative paths start at `folder`, by default the current one.
    """
    path = os.path.join(folder, piece.path)  # noqa: PTH118 - a path may hold what pathlib refuses
    try:
        if piece.high is not None:
            low, high = piece.low, piece.high
            return scan_range(path, low, high, options, name=piece.path, progress=progress)
        if piece.path == STDIN:
            source = sys.stdin.buffer if stdin is None else stdin
            return scan_stream(cast("io.RawIOBase", source), STDIN, options, progress=progress)
        with Path(path).open("rb", buffering=0) as file:
            watched = file if progress is None else _ProgressSource(file, progress)
            return scan_stream(cast("io.RawIOBase", watched), piece.path, options)
    except (OSError, ValueError) as error:
        reason = error_reason(error)
    except DemurError as error:
        reason = f"{error.problem}: {error.help}" if error.help else error.problem
    return RefusalCounts(unread=(UnreadFile(piece.path, reason),))


class _ProgressSource:
    """Reports the bytes read from a compressed file, to compare with its size on disk."""

    def __init__(self, file: io.FileIO, progress: ReportBytes) -> None:
        self._file, self._progress = file, progress

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer."""
        got = self._file.readinto(buffer) or 0
        self._progress(got)
        return got


Item = TypeVar("Item")
_ORDER_BYTES, _LENGTH_BYTES = 4, 8


class WorkResult(NamedTuple):
    """The result of the item at a position; `killed` if its process died."""

    position: int
    result: Any = None
    killed: bool = False


def run_in_forks(
    function: Callable[[Item], Any], items: Sequence[Item], number: int
) -> Iterator[WorkResult]:
    """Yield the function's result for each item, in the order of completion.

    Do not use it in a program with threads. Exceptions of the function are raised here.
    """
    # Before forking, so that it is imported once.
    import_module("pickle")
    workers: list[_ForkWorker] = []
    try:
        for _ in range(min(number, len(items))):
            workers.append(_ForkWorker(function, items, workers))
        yield from _collect_results(workers, len(items))
    finally:
        for worker in workers:
            worker.kill()


def _collect_results(workers: list["_ForkWorker"], number: int) -> Iterator[WorkResult]:
    waiting = iter(range(number))
    ready, live = select.poll(), {}
    for worker, position in zip(workers, waiting, strict=False):
        worker.assign(position)
        live[worker.answers] = worker
        ready.register(worker.answers, select.POLLIN)
    while live:
        for place, _ in ready.poll():
            worker = live[place]
            done = worker.read_result()
            following = None if done.killed else next(waiting, None)
            if following is None:
                ready.unregister(place)
                del live[place]
            else:
                worker.assign(following)
            yield done
    for position in waiting:
        yield WorkResult(position, killed=True)


class _ForkWorker:
    """A fork that receives positions of items one at a time, and returns results."""

    def __init__(
        self, function: Callable[[Item], Any], items: Sequence[Item], others: list["_ForkWorker"]
    ) -> None:
        self._position = -1
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        self._pid = os.fork()
        if not self._pid:  # pragma: no cover - runs in the fork
            try:
                # If a fork kept these ends open, the parent could not detect that a process died.
                for place in (self.orders, *(other.orders for other in others)):
                    os.close(place)
                serve_orders(function, items, orders, answers)
            finally:
                # Skip the parent's buffers and exit handlers.
                os._exit(0)
        os.close(orders)
        os.close(answers)

    def assign(self, position: int) -> None:
        """Assign an item."""
        self._position = position
        # If the fork died, reading its result reports that.
        with suppress(BrokenPipeError):
            os.write(self.orders, position.to_bytes(_ORDER_BYTES, "big"))

    def read_result(self) -> WorkResult:
        """Return the result that is ready to be read."""
        size = _read_bytes(self.answers, _LENGTH_BYTES)
        raw = _read_bytes(self.answers, int.from_bytes(size, "big")) if size else None
        if raw is None:
            return WorkResult(self._position, killed=True)
        good, value = import_module("pickle").loads(raw)
        if not good:
            raise value
        return WorkResult(self._position, value)

    def kill(self) -> None:
        """Kill the fork at once: it only reads."""
        os.close(self.orders)
        os.close(self.answers)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def serve_orders(
    function: Callable[[Item], Any], items: Sequence[Item], orders: int, answers: int
) -> None:
    """Process orders until there are no more."""
    while order := _read_bytes(orders, _ORDER_BYTES):
        try:
            answer = (True, function(items[int.from_bytes(order, "big")]))
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            answer = (False, error)
        raw = import_module("pickle").dumps(answer)
        rest = memoryview(len(raw).to_bytes(_LENGTH_BYTES, "big") + raw)
        while rest:
            rest = rest[os.write(answers, rest) :]


def _read_bytes(place: int, size: int) -> bytes | None:
    """Return `size` bytes, or None if the pipe ends before."""
    parts = []
    while size:
        part = os.read(place, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# Below this, starting a process takes longer than the work.
_MIN_PARALLEL_SIZE = 48 << 20
_QUEUED_PER_JOB = 4


def default_jobs() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def triage_logs(
    names: Iterable[str] | TriagePlan,
    options: TriageOptions,
    *,
    jobs: int | None = None,
    progress: ReportBytes | None = None,
    stdin: IO[bytes] | None = None,
) -> RefusalCounts:
    """Return the counts of the named files, folders and globs; `-` is standard input.

    Files that cannot be read are listed in `unread`, and the rest is counted. `progress`
    gets the number of bytes read since the last call.
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
    for done in (_scan_forked if forks else _scan_pooled)(pieces, options, jobs):
        piece = pieces[done.position]
        if progress is not None:
            progress(piece.size)
        if done.killed:
            unread = UnreadFile(piece.path, "the process that read it was killed")
            yield RefusalCounts(unread=(unread,))
        else:
            yield done.result


def _scan_forked(pieces: list[LogPiece], options: TriageOptions, jobs: int) -> Iterator[WorkResult]:
    plain = next((piece.path for piece in pieces if piece.high is not None), None)
    if plain is not None:
        # Build the filters before forking, to share them. The forks report unreadable files.
        with suppress(OSError, ValueError, DemurError):
            warm_kernel(options, plain)
    return run_in_forks(partial(scan_piece, options=options), pieces, jobs)


def _scan_pooled(pieces: list[LogPiece], options: TriageOptions, jobs: int) -> Iterator[WorkResult]:
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


_BAR_WIDTH, _DRAW_INTERVAL_S = 24, 0.1
_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB")


class ProgressBar:
    """Shows progress towards `size` bytes; with a size of 0, only the speed."""

    def __init__(self, stream: TextIO, size: int, clock: Callable[[], float]) -> None:
        self._stream, self._size, self._clock = stream, size, clock
        self._start = self._shown = clock()
        self._done = 0

    def __call__(self, more: int) -> None:
        """Count more bytes, and redraw the bar at intervals."""
        self._done += more
        now = self._clock()
        if now - self._shown >= _DRAW_INTERVAL_S:
            self._shown = now
            self._stream.write(f"\r\x1b[K{self.bar_text(now)}")
            self._stream.flush()

    def bar_text(self, now: float) -> str:
        """Return the text of the bar at a time."""
        rate = self._done / max(now - self._start, 1e-9)
        speed = f"{format_size(self._done)} {format_size(rate)}/s"
        if not self._size:
            return speed
        part = min(self._done / self._size, 1.0)
        full = int(part * _BAR_WIDTH)
        left = max(self._size - self._done, 0) / max(rate, 1e-9)
        bar = "#" * full + "." * (_BAR_WIDTH - full)
        return f"[{bar}] {part:4.0%} {speed} {_format_duration(left)} left"

    def close(self) -> None:
        """Clear the bar."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def format_size(size: float) -> str:
    """Return a size with a unit, such as `1.5 MB`."""
    for unit in _SIZE_UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_SIZE_UNITS[-1]}"


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
