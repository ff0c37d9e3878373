"""Which files to read: paths, folders and globs turned into pieces of work."""

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.triage.compressed import compression_of
from demur.triage.counts import Unread

__all__ = ["STDIN", "Piece", "Plan", "files_of", "plan"]

STDIN = "-"
# Large enough that starting one is cheap, small enough that processes finish together.
_RANGE = 32 << 20
_MAGIC = 8


class Piece(NamedTuple):
    """Work for one process: a range of a plain file, or a whole stream (`high` is None)."""

    path: str
    low: int = 0
    high: int | None = None
    size: int = 0


class Plan(NamedTuple):
    """All pieces of work, and the files that cannot be read."""

    pieces: tuple[Piece, ...]
    unread: tuple[Unread, ...]

    @property
    def size(self) -> int:
        """The number of bytes to read; for compressed files, their size on disk."""
        return sum(piece.size for piece in self.pieces)


def plan(names: Iterable[str]) -> Plan:
    """Return the pieces of work for the given names; a file named twice is read once."""
    pieces: list[Piece] = []
    unread: list[Unread] = []
    for found in files_of(names):
        if isinstance(found, Unread):
            unread.append(found)
            continue
        try:
            pieces += _pieces(found)
        except (OSError, ValueError) as error:
            unread.append(Unread(found, _reason(error)))
    return Plan(tuple(pieces), tuple(unread))


def files_of(names: Iterable[str]) -> list[str | Unread]:
    """Return the files of the names in order; missing ones with the reason."""
    found: dict[str, str | Unread] = {}
    for name in names:
        for each in [name] if name == STDIN else _expanded(name):
            found.setdefault(each if isinstance(each, str) else each.file, each)
    return list(found.values())


def _expanded(name: str) -> Iterator[str | Unread]:
    path = Path(name)
    try:
        if path.is_dir():
            yield from _within(path)
        elif glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - the pattern may be absolute
            if not matches:
                yield Unread(name, "no file matches")
            for match in matches:
                yield from _within(Path(match)) if Path(match).is_dir() else (match,)
        else:
            yield name
    except (OSError, ValueError) as error:
        yield Unread(name, _reason(error))


def _within(folder: Path) -> Iterator[str | Unread]:
    """Yield the files in a folder and below it, without following links to folders."""
    problems: list[Unread] = []

    def note(error: OSError) -> None:
        problems.append(Unread(str(error.filename), _reason(error)))

    for root, folders, files in os.walk(folder, onerror=note):
        folders.sort()
        for file in sorted(files):
            path = Path(root, file)
            # Skip pipes and devices, which may never end.
            if path.is_file():
                yield str(path)
    yield from problems


def _pieces(path: str) -> list[Piece]:
    if path == STDIN:
        return [Piece(path)]
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        return [Piece(path)]
    with Path(path).open("rb", buffering=0) as file:
        packed = compression_of(file.read(_MAGIC) or b"")
    if packed is not None:
        return [Piece(path, size=status.st_size)]
    starts = range(0, max(status.st_size, 1), _RANGE)
    ends = [min(start + _RANGE, status.st_size) for start in starts]
    return [Piece(path, low, high, high - low) for low, high in zip(starts, ends, strict=True)]


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()
