"""Follow logs as they grow: whole lines, each once, through rotation and truncation.

A file that another one took the place of is read to its end before the new one is begun. A
file that became shorter is begun anew. A file that appears later in a folder or a glob is
read from its start.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.triage.blocks import Readable, stream_blocks
from demur.triage.compressed import compression_of
from demur.triage.counts import Counts, Unread, merge
from demur.triage.inputs import STDIN, files_of
from demur.triage.options import Options
from demur.triage.scan import count_blocks, looks_structured, scan_stream

if TYPE_CHECKING:
    import io

__all__ = ["Follower", "follow"]

_HEAD = 1 << 16


def follow(
    names: Iterable[str],
    options: Options,
    *,
    wait: Callable[[], bool],
    from_start: bool = True,
) -> Iterator[Counts]:
    """Yield the counts so far, first at once and then whenever they changed.

    `wait` is called between looks; once it returns false, it ends. Unless `from_start`,
    what the files hold already is left out.
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
    """Reads what was added to files since it last looked."""

    def __init__(self, names: tuple[str, ...], options: Options, *, from_start: bool) -> None:
        self._names = names
        self._options = options
        self._tails: dict[str, _Tail] = {}
        self._told: set[Unread] = set()
        self._skip = not from_start

    def look(self) -> Counts:
        """Return the counts of what is new."""
        parts = [self._new(found) for found in files_of(self._names)]
        self._skip = False
        return merge(parts, samples=self._options.samples)

    def close(self) -> None:
        """Let go of the files."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _new(self, found: str | Unread) -> Counts:
        if isinstance(found, Unread):
            return self._unread(found)
        if found == STDIN:
            return self._unread(Unread(found, "standard input cannot be followed"))
        try:
            tail = self._tails.get(found)
            if tail is None:
                tail = self._tails[found] = _Tail(found, self._options, skip=self._skip)
            return tail.read()
        except (OSError, ValueError) as error:
            # It may be back at the next look, in the middle of its rotation.
            reason = str(getattr(error, "strerror", None) or error).lower()
            return self._unread(Unread(found, reason))

    def _unread(self, unread: Unread) -> Counts:
        if unread in self._told:
            return Counts()
        self._told.add(unread)
        return Counts(unread=(unread,))


class _Tail:
    """The end of one file, as it moves."""

    def __init__(self, path: str, options: Options, *, skip: bool) -> None:
        self._path = path
        self._options = options
        self._file = _opened(path)
        self._at = os.fstat(self._file.fileno()).st_size if skip else 0
        self._fresh = True

    def read(self) -> Counts:
        """Return the counts of the lines that were added."""
        parts = [self._added(whole=False)]
        with suppress(FileNotFoundError):
            if not os.path.samestat(Path(self._path).stat(), os.fstat(self._file.fileno())):
                # Nobody writes to the old one any more, so what is left of it is whole.
                parts.append(self._added(whole=True))
                self._reopen()
                parts.append(self._added(whole=False))
        return merge(parts, samples=self._options.samples)

    def close(self) -> None:
        self._file.close()

    def _reopen(self) -> None:
        self._file.close()
        self._file = _opened(self._path)
        self._at, self._fresh = 0, True

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
        options = msgspec.structs.replace(self._options, format=form)
        self._file.seek(self._at)
        source: Readable = self._file
        blocks = stream_blocks(source, whole=whole, base=self._at)
        counts = count_blocks(blocks, options, self._path)
        self._at += counts.size
        files = int(self._fresh and counts.size > 0)
        self._fresh = self._fresh and not files
        return msgspec.structs.replace(counts, files=files)

    def _packed(self) -> Counts:
        """Return the counts of a compressed file, which does not grow: once."""
        size = os.fstat(self._file.fileno()).st_size
        if not self._fresh or self._at >= size:
            return Counts()
        self._fresh, self._at = False, size
        self._file.seek(0)
        return scan_stream(self._file, self._path, self._options)


def _opened(path: str) -> "io.FileIO":
    return Path(path).open("rb", buffering=0)
