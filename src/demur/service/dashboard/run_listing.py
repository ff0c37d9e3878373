"""The runs of evals in a folder, by names that lead nowhere else."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from demur.evals.run_folder import ANSWERS, ROWS
from demur.evals.run_manifest import MANIFEST

__all__ = ["Listing", "list_runs"]

# Runs are often kept by suite and by model.
_DEEPEST = 3
# A larger folder is hardly one of runs, and a page must not take long to list it.
_MOST_FOLDERS = 2_000
_MOST_ENTRIES = 20_000
_FILES = frozenset({MANIFEST, ROWS, ANSWERS})


class Listing(NamedTuple):
    """The folders of runs by name, latest first; `is_complete` says that all were searched."""

    folders: Mapping[str, Path]
    whole: bool


def list_runs(folder: Path) -> Listing:
    """Return the runs in a folder; none if it cannot be read. Links are not followed."""
    walk = _Walk()
    found = [(_changed(path), name, path) for name, path in walk.runs(folder, "", 1)]
    latest = sorted(found, key=lambda one: (-one[0], one[1]))
    folders: dict[str, Path] = {}
    for _, name, path in latest:
        folders.setdefault(name, path)
    return Listing(folders, walk.whole)


class _Walk:
    """Searches folders for runs, up to a limit."""

    def __init__(self) -> None:
        self.whole = True
        self._folders = 0
        self._entries = 0

    def runs(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
        """Yield the runs below a folder, each with its name."""
        for name in self._inside(folder):
            path, shown = folder / name, prefix + _shown(name)
            if _is_run(path):
                yield shown, path
            elif depth < _DEEPEST:
                yield from self.runs(path, f"{shown}/", depth + 1)

    def _inside(self, folder: Path) -> list[str]:
        """Return the folders in a folder, without hidden ones."""
        self._folders += 1
        if self._folders > _MOST_FOLDERS or self._entries > _MOST_ENTRIES:
            self.whole = False
            return []
        names = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > _MOST_ENTRIES:
                        self.whole = False
                        break
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
        except OSError:
            # Missing and unreadable folders hold no runs.
            return []
        return sorted(names)


def _is_run(path: Path) -> bool:
    """Return whether a folder holds a file of a run."""
    return any(os.path.lexists(path / name) for name in _FILES)


def _changed(path: Path) -> float:
    """Return when the manifest of a run last changed."""
    for place in (path / MANIFEST, path):
        try:
            return place.lstat().st_mtime
        except OSError:
            continue
    return 0.0


def _shown(name: str) -> str:
    """Return a name as valid UTF-8, whatever bytes the file system has."""
    return name.encode("utf-8", "replace").decode("utf-8")
