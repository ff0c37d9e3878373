"""Follow logs as they grow: whole lines, each once, through rotation and truncation.

A file is known by what it is, not by its name, so one that is renamed among those that are
followed goes on where it was. One that another took the place of is read to its end. A file
that became shorter is begun anew. A file that appears later in a folder or a glob is read
from its start.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from demur.triage.blocks import Readable, stream_blocks
from demur.triage.compressed import compression_of
from demur.triage.counts import Counts, Unread, merge
from demur.triage.inputs import STDIN, files_of
from demur.triage.options import Options
from demur.triage.scan import count_blocks, looks_structured, scan_stream

__all__ = ["Follower", "follow"]

_HEAD = 1 << 16
# A file that moves while its folder is listed can be missed once.
_LOOKS_AWAY = 2
_Identity = tuple[int, int]


def follow(
    names: Iterable[str],
    options: Options,
    *,
    wait: Callable[[], bool],
    from_start: bool = True,
) -> Iterator[Counts]:
    """Yield the counts so far, first at once and then after each change.

    `wait` is called between reads; following ends when it returns false. Unless `from_start`,
    the existing content of the files is skipped.
    """
    follower = Follower(tuple(names), options, from_start=from_start)
    try:
        total = follower.look()
        yield total
        while wait():
            more = follower.look()
            if more.rows or more.unread:
                total = merge([total, more], samples=options.samples)
                yield total
    finally:
        follower.close()


class Follower:
    """Reads the lines added to files since the last read."""

    def __init__(self, names: tuple[str, ...], options: Options, *, from_start: bool) -> None:
        self._names = names
        self._options = options
        self._tails: dict[_Identity, _Tail] = {}
        self._known: set[str] = set()
        self._told: set[Unread] = set()
        self._skip = not from_start

    def look(self) -> Counts:
        """Return the counts of new lines."""
        seen: set[_Identity] = set()
        parts = [self._new(found, seen) for found in files_of(self._names)]
        parts += [self._away(which) for which in self._tails.keys() - seen]
        self._skip = False
        return merge(parts, samples=self._options.samples)

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _new(self, found: str | Unread, seen: set[_Identity]) -> Counts:
        if isinstance(found, Unread):
            return self._unread(found)
        if found == STDIN:
            return self._unread(Unread(found, "standard input cannot be followed"))
        return self._tried(found, lambda: self._found(found, seen))

    def _found(self, path: str, seen: set[_Identity]) -> Counts:
        opened = _Tail(path, self._options, skip=self._skip)
        self._known.add(path)
        tail = self._tails.setdefault(opened.identity, opened)
        if tail is not opened:
            opened.close()
        if tail.identity in seen:
            return Counts()
        seen.add(tail.identity)
        tail.looks_away = 0
        return tail.read()

    def _away(self, which: _Identity) -> Counts:
        """Return the counts of a file that lost its name; close it when it is finished."""
        tail = self._tails[which]
        tail.looks_away += 1
        counts = self._tried(tail.path, tail.read)
        if tail.looks_away >= _LOOKS_AWAY and tail.is_over():
            self._tails.pop(which).close()
        return counts

    def _tried(self, path: str, read: Callable[[], Counts]) -> Counts:
        try:
            return read()
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and path in self._known:
                # During its rotation a file can be missing; it may be back at the next read.
                return Counts()
            reason = str(getattr(error, "strerror", None) or error).lower()
            return self._unread(Unread(path, reason))

    def _unread(self, unread: Unread) -> Counts:
        if unread in self._told:
            return Counts()
        self._told.add(unread)
        return Counts(unread=(unread,))


class _Tail:
    """The growing end of one file. `path` is its first path."""

    def __init__(self, path: str, options: Options, *, skip: bool) -> None:
        self.path = path
        self.looks_away = 0
        self._options = options
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - open until `close`
        status = os.fstat(self._file.fileno())
        # While it is open, no other file can have the same identity.
        self.identity = _identity(status)
        self._at = status.st_size if skip else 0
        self._fresh = True

    def read(self) -> Counts:
        """Return the counts of the lines that were added."""
        # A replaced file is not written to any more, so its last line is complete.
        return self._added(whole=self._is_replaced())

    def is_over(self) -> bool:
        """Return whether the file is not written to any more: it was replaced or deleted."""
        return self._is_replaced() or not os.fstat(self._file.fileno()).st_nlink

    def close(self) -> None:
        self._file.close()

    def _is_replaced(self) -> bool:
        with suppress(OSError):
            return _identity(Path(self.path).stat()) != self.identity
        return False

    def _added(self, *, whole: bool) -> Counts:
        if os.fstat(self._file.fileno()).st_size < self._at:
            self._at, self._fresh = 0, True
        self._file.seek(0)
        head = self._file.read(_HEAD) or b""
        if compression_of(head) is not None:
            return self._packed()
        form = self._options.format
        if form == "auto":
            form = "json" if looks_structured(head) else "text"
        options = self._options._replace(format=form)
        self._file.seek(self._at)
        source: Readable = self._file
        blocks = stream_blocks(source, whole=whole, base=self._at)
        counts = count_blocks(blocks, options, self.path)
        self._at += counts.size
        files = int(self._fresh and counts.size > 0)
        self._fresh = self._fresh and not files
        return counts._replace(files=files)

    def _packed(self) -> Counts:
        """Return the counts of a compressed file, once: it does not grow."""
        size = os.fstat(self._file.fileno()).st_size
        if not self._fresh or self._at >= size:
            return Counts()
        self._fresh, self._at = False, size
        self._file.seek(0)
        return scan_stream(self._file, self.path, self._options)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
