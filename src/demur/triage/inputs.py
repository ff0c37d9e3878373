"""Which files to read: paths, folders and globs turned into pieces of work."""

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.triage.compressed import detect_compression
from demur.triage.counts import UnreadFile

__all__ = ["STDIN", "LogPiece", "TriagePlan", "expand_names", "plan_work"]

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
            unread.append(UnreadFile(found, _error_reason(error)))
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
        yield UnreadFile(name, _error_reason(error))


def _walk_folder(folder: Path) -> Iterator[str | UnreadFile]:
    """Yield the files in a folder and below it, without following links to folders."""
    problems: list[UnreadFile] = []

    def note(error: OSError) -> None:
        problems.append(UnreadFile(str(error.filename), _error_reason(error)))

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


def _error_reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()
