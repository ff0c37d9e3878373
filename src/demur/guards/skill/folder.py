"""Read the folder of a skill within limits, without following links out of it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from demur.errors import InputError, error_reason
from demur.guards.skill.event import Skill

_GIT_FOLDER = ".git"
_OUTSIDE_LINK = "a link that leads out of the folder"


class SkillLimits(NamedTuple):
    """Limits of a scan; files beyond them are listed as omitted and count as not judged."""

    files: int = 20_000
    file_bytes: int = 20_000_000
    total_bytes: int = 400_000_000


def read_skill(path: Path, limits: SkillLimits | None = None) -> Skill:
    """Return the files below `path`, or the one file that it is.

    Links out of the folder, special files and files beyond the limits are not read.

    Raises:
        InputError: There is nothing to read at `path`.
    """
    bounds = limits or SkillLimits()
    try:
        root = path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(reason.lower(), where=str(path)) from error
    reader = _SkillReader(root, bounds)
    if root.is_dir():
        for file in _walk_folder(root, reader.omitted):
            reader.read_file(file, file.relative_to(root))
    else:
        reader.read_file(root, Path(root.name))
    return Skill(files=reader.files, name=root.name, omitted=reader.omitted)


def _walk_folder(root: Path, omitted: dict[str, str]) -> Iterator[Path]:
    def note_unreadable(error: OSError) -> None:
        place = Path(error.filename).relative_to(root)
        omitted[_portable_path(place)] = str(error.strerror).lower()

    for folder, folders, names in os.walk(root, onerror=note_unreadable):
        here = Path(folder)
        for name in list(folders):
            if (here / name).is_symlink():
                folders.remove(name)
                if not _is_inside(here / name, root):
                    omitted[_portable_path((here / name).relative_to(root))] = _OUTSIDE_LINK
        if here.name == _GIT_FOLDER:
            # Only the hooks in a `.git` folder can run.
            folders[:] = [name for name in folders if name == "hooks"]
            names = []  # noqa: PLW2901 - nothing else is of interest here
        folders.sort()
        yield from (here / name for name in sorted(names) if not name.endswith(".sample"))


class _SkillReader:
    def __init__(self, root: Path, limits: SkillLimits) -> None:
        self.files: dict[str, bytes] = {}
        self.omitted: dict[str, str] = {}
        self._root = root
        self._limits = limits
        self._total = 0

    def read_file(self, file: Path, place: Path) -> None:
        """Read one file, or note why not."""
        key = _portable_path(place)
        try:
            why = self._omission_reason(file)
            if why is None:
                with file.open("rb") as stream:
                    data = stream.read(self._limits.file_bytes)
                self._total += len(data)
                self.files[key] = data
            else:
                self.omitted[key] = why
        except OSError as error:
            self.omitted[key] = error_reason(error)

    def _omission_reason(self, file: Path) -> str | None:
        limits = self._limits
        if file.is_symlink() and not _is_inside(file, self._root):
            return _OUTSIDE_LINK
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            return "not a regular file"
        if len(self.files) >= limits.files:
            return f"more than {limits.files} files"
        if about.st_size > limits.file_bytes:
            return f"larger than {limits.file_bytes} bytes"
        if self._total + about.st_size > limits.total_bytes:
            return f"more than {limits.total_bytes} bytes in all"
        return None


def _is_inside(link: Path, root: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _portable_path(place: Path) -> str:
    """Return a path below the folder, escaped so that it can always be encoded."""
    return os.fsencode(place.as_posix()).decode("utf-8", "backslashreplace")
