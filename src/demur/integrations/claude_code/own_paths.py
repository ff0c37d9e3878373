"""The files that hold the agent in check: hook settings, demur's settings, rules, and state.

Paths are compared by their words; a link is followed where a path is given whole. Letters in
large and small count as the same, as they do on many disks.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

__all__ = ["OwnPaths", "own_paths"]

_FOLDER = ".claude"
_SETTINGS = ("settings.json", "settings.local.json")
_NAMES = frozenset([".mcp.json", ".claude.json", "demur.toml", "managed-settings.json"])
_GLOB = re.compile(r"[*?\[]|\{[^{}]*(?:,|\.\.)")
_LONGEST_PATTERN = 500
_BRACES = re.compile(r"\{[^}]*\}?")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class OwnPaths(NamedTuple):
    """Files that must not change without approval: `files` by full path, and all in `folders`.

    Settings of Claude Code and of demur are protected in every folder. `project` is the base of
    relative paths, `places` are the values of variables and `~`.

    Paths are compared as text, ignoring case as many disks do; a link is followed where a path
    is given in full.
    """

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    project: str = ""
    places: tuple[tuple[str, str], ...] = ()

    def hold(self, path: str) -> bool:
        """Return whether a path is protected, or links to a protected file."""
        whole = self._whole(path)
        return self._is_named(path) or self._is_one(whole.lower()) or self._is_one(_real(whole))

    def mention(self, word: str) -> bool:
        """Return whether a word of a command may name a protected file, from any folder."""
        last = posixpath.basename(_clean(word)).lower()
        if self._is_named(word) or last in {posixpath.basename(file) for file in self.files}:
            return True
        if last in _SETTINGS and not _names_folder(word):
            return True
        whole = self._whole(word).lower()
        return self._is_one(whole) or (
            _is_pattern(whole)
            and any(fnmatchcase(one, _loose(whole)) for one in (*self.files, *self.folders))
        )

    def lie_in(self, word: str) -> bool:
        """Return whether a word is a folder with protected files; not a home or a project."""
        whole = self._whole(word).lower()
        known = [self.project.lower(), *(place.lower() for _, place in self.places)]
        if any(place == whole or _inside(place, whole) for place in known if place):
            return False
        return any(_inside(one, whole) for one in (*self.files, *self.folders))

    def _is_one(self, whole: str) -> bool:
        return whole in self.files or any(
            whole == folder or _inside(whole, folder) for folder in self.folders
        )

    def _is_named(self, path: str) -> bool:
        parts = _clean(self._placed(path)).lower().split("/")
        for part, after in zip(parts, [*parts[1:], ""], strict=True):
            if _like(part, _FOLDER) and (not after or any(_like(after, one) for one in _SETTINGS)):
                return True
        return any(_like(parts[-1], name) for name in _NAMES)

    def _placed(self, path: str) -> str:
        known = dict(self.places)
        path = f"$HOME{path[1:]}" if path.startswith("~") else path
        return _VARIABLE.sub(lambda one: known.get(one[1] or one[2], one[0]), path)

    def _whole(self, path: str) -> str:
        return _clean(posixpath.join(self.project, self._placed(path)))


def own_paths(files: Iterable[Path], folders: Iterable[Path], project: str = "") -> OwnPaths:
    """Return the protected paths, each as given and as resolved."""
    places = {"HOME": str(Path.home()), "CLAUDE_PROJECT_DIR": project}
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        places[name] = os.environ.get(name, "")
    home = places["CLAUDE_CONFIG_DIR"]
    settings = [Path(home, name) for name in _SETTINGS] if home else []
    return OwnPaths(
        frozenset(_both([*files, *settings])),
        frozenset(_both(folders)),
        _clean(project),
        tuple((name, _clean(place)) for name, place in places.items() if place),
    )


def _both(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield _clean(str(path.absolute())).lower()
        yield _real(str(path.absolute()))


def _real(path: str) -> str:
    """Return the resolved path; one that cannot be resolved stays as it is."""
    try:
        return _clean(os.path.realpath(path)).lower()
    except (OSError, ValueError):
        return path.lower()


def _clean(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/")) if path else ""


def _inside(path: str, folder: str) -> bool:
    return bool(folder) and path.startswith(f"{folder.rstrip('/')}/")


def _names_folder(path: str) -> bool:
    """Return whether a path names its folder without a variable or pattern."""
    folder = posixpath.dirname(_clean(path))
    return bool(folder.strip("./")) and "$" not in folder and not _is_pattern(folder)


def _is_pattern(word: str) -> bool:
    return len(word) <= _LONGEST_PATTERN and _GLOB.search(word) is not None


def _loose(pattern: str) -> str:
    return _BRACES.sub("*", pattern)


def _like(part: str, name: str) -> bool:
    """Return whether a part of a path is a name, or a pattern of it as a shell reads one."""
    if not _is_pattern(part):
        return part == name
    is_seen = not name.startswith(".") or part.startswith((".", "[", "{"))
    # A pattern such as `*` matches every name, so it does not name a protected file.
    is_meant = name not in _NAMES or part.startswith(".")
    return is_seen and is_meant and fnmatchcase(name, _loose(part))
