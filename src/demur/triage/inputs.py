"""Which files to read: paths, folders and globs as pieces of work, and logs that still grow.

A followed file is known by its identity, not its name: a renamed file continues where it was, a
replaced one is read to its end, and one that became shorter is read from the start. A file that
appears later in a folder or a glob is read from its start.
"""

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from demur.errors import error_reason
from demur.triage.blocks import detect_compression, stream_blocks
from demur.triage.counts import RefusalCounts, TriageOptions, UnreadFile, merge_counts
from demur.triage.scan import count_blocks, resolve_format, scan_stream

STDIN = "-"
# Large enough that starting one is cheap, small enough that processes finish together.
_RANGE_SIZE = 32 << 20
_MAGIC_SIZE = 8


class LogPiece(NamedTuple):
    """Work for one process: a range of a plain file, or a whole stream (`high` is None)."""

    path: str
    low: int = 0
    high: int | None = None
    size: int = 0


class TriagePlan(NamedTuple):
    """All pieces of work, and the files that cannot be read."""

    pieces: tuple[LogPiece, ...]
    unread: tuple[UnreadFile, ...]

    @property
    def size(self) -> int:
        """The number of bytes to read; for compressed files, their size on disk."""
        return sum(piece.size for piece in self.pieces)


def plan_work(names: Iterable[str]) -> TriagePlan:
    """Return the pieces of work for the given names; a file named twice is read once."""
    pieces: list[LogPiece] = []
    unread: list[UnreadFile] = []
    for found in expand_names(names):
        if isinstance(found, UnreadFile):
            unread.append(found)
            continue
        try:
            pieces += _split_file(found)
        except (OSError, ValueError) as error:
            unread.append(UnreadFile(found, error_reason(error)))
    return TriagePlan(tuple(pieces), tuple(unread))


def expand_names(names: Iterable[str]) -> list[str | UnreadFile]:
    """Return the files of the names in order; missing ones with the reason."""
    found: dict[str, str | UnreadFile] = {}
    for name in names:
        for each in [name] if name == STDIN else _expand_name(name):
            found.setdefault(each if isinstance(each, str) else each.file, each)
    return list(found.values())


def _expand_name(name: str) -> Iterator[str | UnreadFile]:
    path = Path(name)
    try:
        if path.is_dir():
            yield from _walk_folder(path)
        elif glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - the pattern may be absolute
            if not matches:
                yield UnreadFile(name, "no file matches")
            for match in matches:
                yield from _walk_folder(Path(match)) if Path(match).is_dir() else (match,)
        else:
            yield name
    except (OSError, ValueError) as error:
        yield UnreadFile(name, error_reason(error))


def _walk_folder(folder: Path) -> Iterator[str | UnreadFile]:
    """Yield the files in a folder and below it, without following links to folders."""
    problems: list[UnreadFile] = []

    def note(error: OSError) -> None:
        problems.append(UnreadFile(str(error.filename), error_reason(error)))

    for root, folders, files in os.walk(folder, onerror=note):
        folders.sort()
        for file in sorted(files):
            path = Path(root, file)
            # Skip pipes and devices, which may never end.
            if path.is_file():
                yield str(path)
    yield from problems


def _split_file(path: str) -> list[LogPiece]:
    if path == STDIN:
        return [LogPiece(path)]
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        return [LogPiece(path)]
    with Path(path).open("rb", buffering=0) as file:
        packed = detect_compression(file.read(_MAGIC_SIZE) or b"")
    if packed is not None:
        return [LogPiece(path, size=status.st_size)]
    starts = range(0, max(status.st_size, 1), _RANGE_SIZE)
    ends = [min(start + _RANGE_SIZE, status.st_size) for start in starts]
    return [LogPiece(path, low, high, high - low) for low, high in zip(starts, ends, strict=True)]


_HEAD_SIZE = 1 << 16
# A file that moves while its folder is listed can be missed once.
_MAX_MISSED_LOOKS = 2
_Identity = tuple[int, int]


def follow_logs(
    names: Iterable[str],
    options: TriageOptions,
    *,
    wait: Callable[[], bool],
    from_start: bool = True,
) -> Iterator[RefusalCounts]:
    """Yield the counts so far, first at once and then after each change.

    `wait` is called between reads; following ends when it returns false. Unless `from_start`,
    the existing content of the files is skipped.
    """
    follower = LogFollower(tuple(names), options, from_start=from_start)
    try:
        total = follower.read_new()
        yield total
        while wait():
            more = follower.read_new()
            if more.rows or more.unread:
                total = merge_counts([total, more], samples=options.samples)
                yield total
    finally:
        follower.close()


class LogFollower:
    """Reads the lines added to files since the last read."""

    def __init__(self, names: tuple[str, ...], options: TriageOptions, *, from_start: bool) -> None:
        self._names, self._options = names, options
        self._tails: dict[_Identity, _FileTail] = {}
        self._known: set[str] = set()
        self._reported: set[UnreadFile] = set()
        self._skip = not from_start

    def read_new(self) -> RefusalCounts:
        """Return the counts of new lines."""
        seen: set[_Identity] = set()
        parts = [self._read_file(found, seen) for found in expand_names(self._names)]
        parts += [self._read_missing(which) for which in self._tails.keys() - seen]
        self._skip = False
        return merge_counts(parts, samples=self._options.samples)

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _read_file(self, found: str | UnreadFile, seen: set[_Identity]) -> RefusalCounts:
        if isinstance(found, UnreadFile):
            return self._report_unread(found)
        if found == STDIN:
            return self._report_unread(UnreadFile(found, "standard input cannot be followed"))
        return self._try_read(found, lambda: self._read_known(found, seen))

    def _read_known(self, path: str, seen: set[_Identity]) -> RefusalCounts:
        opened = _FileTail(path, self._options, skip=self._skip)
        self._known.add(path)
        tail = self._tails.setdefault(opened.identity, opened)
        if tail is not opened:
            opened.close()
        if tail.identity in seen:
            return RefusalCounts()
        seen.add(tail.identity)
        tail.missed_looks = 0
        return tail.read()

    def _read_missing(self, which: _Identity) -> RefusalCounts:
        """Return the counts of a file that lost its name; close it when it is finished."""
        tail = self._tails[which]
        tail.missed_looks += 1
        counts = self._try_read(tail.path, tail.read)
        if tail.missed_looks >= _MAX_MISSED_LOOKS and tail.is_finished():
            self._tails.pop(which).close()
        return counts

    def _try_read(self, path: str, read: Callable[[], RefusalCounts]) -> RefusalCounts:
        try:
            return read()
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and path in self._known:
                # During its rotation a file can be missing; it may be back at the next read.
                return RefusalCounts()
            return self._report_unread(UnreadFile(path, error_reason(error)))

    def _report_unread(self, unread: UnreadFile) -> RefusalCounts:
        if unread in self._reported:
            return RefusalCounts()
        self._reported.add(unread)
        return RefusalCounts(unread=(unread,))


class _FileTail:
    """The growing end of one file. `path` is its first path."""

    def __init__(self, path: str, options: TriageOptions, *, skip: bool) -> None:
        self.path = path
        self.missed_looks = 0
        self._options = options
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - open until `close`
        status = os.fstat(self._file.fileno())
        # While it is open, no other file can have the same identity.
        self.identity = _file_identity(status)
        self._offset = status.st_size if skip else 0
        self._fresh = True

    def read(self) -> RefusalCounts:
        """Return the counts of the lines that were added."""
        # A replaced file is not written to any more, so its last line is complete.
        return self._read_added(whole=self._is_replaced())

    def is_finished(self) -> bool:
        """Return whether the file is not written to any more: it was replaced or deleted."""
        return self._is_replaced() or not os.fstat(self._file.fileno()).st_nlink

    def close(self) -> None:
        self._file.close()

    def _is_replaced(self) -> bool:
        with suppress(OSError):
            return _file_identity(Path(self.path).stat()) != self.identity
        return False

    def _read_added(self, *, whole: bool) -> RefusalCounts:
        if os.fstat(self._file.fileno()).st_size < self._offset:
            self._offset, self._fresh = 0, True
        self._file.seek(0)
        head = self._file.read(_HEAD_SIZE) or b""
        if detect_compression(head) is not None:
            # A compressed file is counted once, because it does not grow.
            size = os.fstat(self._file.fileno()).st_size
            if not self._fresh or self._offset >= size:
                return RefusalCounts()
            self._fresh, self._offset = False, size
            self._file.seek(0)
            return scan_stream(self._file, self.path, self._options)
        options = resolve_format(self._options, lambda: head)
        self._file.seek(self._offset)
        blocks = stream_blocks(self._file, whole=whole, base=self._offset)
        counts = count_blocks(blocks, options, self.path)
        self._offset += counts.size
        files = int(self._fresh and counts.size > 0)
        self._fresh = self._fresh and not files
        return counts._replace(files=files)


def _file_identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
