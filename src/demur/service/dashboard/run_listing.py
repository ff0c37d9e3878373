"""The runs of evals in a folder, by names that lead nowhere else."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from demur.evals.run_folder import ANSWERS_FILE, ROWS_FILE
from demur.evals.run_manifest import MANIFEST_FILE

__all__ = ["RunListing", "list_runs"]

# Runs are often kept by suite and by model.
_MAX_DEPTH = 3
# A larger folder is hardly one of runs, and a page must not take long to list it.
_MAX_FOLDERS = 2_000
_MAX_ENTRIES = 20_000
_RUN_MARKERS = frozenset({MANIFEST_FILE, ROWS_FILE, ANSWERS_FILE})


class RunListing(NamedTuple):
    """The folders of runs by name, latest first; `is_complete` says that all were searched."""

    folders: Mapping[str, Path]
    is_complete: bool


def list_runs(folder: Path) -> RunListing:
    """Return the runs in a folder; none if it cannot be read. Links are not followed."""
    walk = _RunWalk()
    found = [(_changed_at(path), name, path) for name, path in walk.find_runs(folder, "", 1)]
    latest = sorted(found, key=lambda one: (-one[0], one[1]))
    folders: dict[str, Path] = {}
    for _, name, path in latest:
        folders.setdefault(name, path)
    return RunListing(folders, walk.is_complete)


class _RunWalk:
    """Searches folders for runs, up to a limit."""

    def __init__(self) -> None:
        self.is_complete = True
        self._folders = 0
        self._entries = 0

    def find_runs(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
        """Yield the runs below a folder, each with its name."""
        for name in self._list_folders(folder):
            path, shown = folder / name, prefix + _sanitize_name(name)
            if _is_run(path):
                yield shown, path
            elif depth < _MAX_DEPTH:
                yield from self.find_runs(path, f"{shown}/", depth + 1)

    def _list_folders(self, folder: Path) -> list[str]:
        """Return the folders in a folder, without hidden ones."""
        self._folders += 1
        if self._folders > _MAX_FOLDERS or self._entries > _MAX_ENTRIES:
            self.is_complete = False
            return []
        names = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > _MAX_ENTRIES:
                        self.is_complete = False
                        break
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
        except OSError:
            # Missing and unreadable folders hold no runs.
            return []
        return sorted(names)


def _is_run(path: Path) -> bool:
    """Return whether a folder holds a file of a run."""
    return any(os.path.lexists(path / name) for name in _RUN_MARKERS)


def _changed_at(path: Path) -> float:
    """Return when the manifest of a run last changed."""
    for place in (path / MANIFEST_FILE, path):
        try:
            return place.lstat().st_mtime
        except OSError:
            continue
    return 0.0


def _sanitize_name(name: str) -> str:
    """Return a name as valid UTF-8, whatever bytes the file system has."""
    return name.encode("utf-8", "replace").decode("utf-8")
