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

__all__ = ["ProtectedPaths", "protected_paths"]

_CLAUDE_FOLDER = ".claude"
_SETTINGS_NAMES = ("settings.json", "settings.local.json")
_PROTECTED_NAMES = frozenset([".mcp.json", ".claude.json", "demur.toml", "managed-settings.json"])
_GLOB = re.compile(r"[*?\[]|\{[^{}]*(?:,|\.\.)")
_MAX_PATTERN_LENGTH = 500
_BRACES = re.compile(r"\{[^}]*\}?")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class ProtectedPaths(NamedTuple):
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

    def is_protected(self, path: str) -> bool:
        """Return whether a path is protected, or links to a protected file."""
        whole = self._full_path(path)
        return (
            self._has_protected_name(path)
            or self._is_listed(whole.lower())
            or self._is_listed(_real_path(whole))
        )

    def is_mentioned(self, word: str) -> bool:
        """Return whether a word of a command may name a protected file, from any folder."""
        last = posixpath.basename(_normalize_path(word)).lower()
        if self._has_protected_name(word) or last in {
            posixpath.basename(file) for file in self.files
        }:
            return True
        if last in _SETTINGS_NAMES and not _names_folder(word):
            return True
        whole = self._full_path(word).lower()
        return self._is_listed(whole) or (
            _is_pattern(whole)
            and any(fnmatchcase(one, _loosen_braces(whole)) for one in (*self.files, *self.folders))
        )

    def has_some_inside(self, word: str) -> bool:
        """Return whether a word is a folder with protected files; not a home or a project."""
        whole = self._full_path(word).lower()
        known = [self.project.lower(), *(place.lower() for _, place in self.places)]
        if any(place == whole or _is_inside(place, whole) for place in known if place):
            return False
        return any(_is_inside(one, whole) for one in (*self.files, *self.folders))

    def _is_listed(self, whole: str) -> bool:
        return whole in self.files or any(
            whole == folder or _is_inside(whole, folder) for folder in self.folders
        )

    def _has_protected_name(self, path: str) -> bool:
        parts = _normalize_path(self._expand_variables(path)).lower().split("/")
        for part, after in zip(parts, [*parts[1:], ""], strict=True):
            if _matches_name(part, _CLAUDE_FOLDER) and (
                not after or any(_matches_name(after, one) for one in _SETTINGS_NAMES)
            ):
                return True
        return any(_matches_name(parts[-1], name) for name in _PROTECTED_NAMES)

    def _expand_variables(self, path: str) -> str:
        known = dict(self.places)
        path = f"$HOME{path[1:]}" if path.startswith("~") else path
        return _VARIABLE.sub(lambda one: known.get(one[1] or one[2], one[0]), path)

    def _full_path(self, path: str) -> str:
        return _normalize_path(posixpath.join(self.project, self._expand_variables(path)))


def protected_paths(
    files: Iterable[Path], folders: Iterable[Path], project: str = ""
) -> ProtectedPaths:
    """Return the protected paths, each as given and as resolved."""
    places = {"HOME": str(Path.home()), "CLAUDE_PROJECT_DIR": project}
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        places[name] = os.environ.get(name, "")
    home = places["CLAUDE_CONFIG_DIR"]
    settings = [Path(home, name) for name in _SETTINGS_NAMES] if home else []
    return ProtectedPaths(
        frozenset(_stated_and_real([*files, *settings])),
        frozenset(_stated_and_real(folders)),
        _normalize_path(project),
        tuple((name, _normalize_path(place)) for name, place in places.items() if place),
    )


def _stated_and_real(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield _normalize_path(str(path.absolute())).lower()
        yield _real_path(str(path.absolute()))


def _real_path(path: str) -> str:
    """Return the resolved path; one that cannot be resolved stays as it is."""
    try:
        return _normalize_path(os.path.realpath(path)).lower()
    except (OSError, ValueError):
        return path.lower()


def _normalize_path(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/")) if path else ""


def _is_inside(path: str, folder: str) -> bool:
    return bool(folder) and path.startswith(f"{folder.rstrip('/')}/")


def _names_folder(path: str) -> bool:
    """Return whether a path names its folder without a variable or pattern."""
    folder = posixpath.dirname(_normalize_path(path))
    return bool(folder.strip("./")) and "$" not in folder and not _is_pattern(folder)


def _is_pattern(word: str) -> bool:
    return len(word) <= _MAX_PATTERN_LENGTH and _GLOB.search(word) is not None


def _loosen_braces(pattern: str) -> str:
    return _BRACES.sub("*", pattern)


def _matches_name(part: str, name: str) -> bool:
    """Return whether a part of a path is a name, or a pattern of it as a shell reads one."""
    if not _is_pattern(part):
        return part == name
    is_seen = not name.startswith(".") or part.startswith((".", "[", "{"))
    # A pattern such as `*` matches every name, so it does not name a protected file.
    is_meant = name not in _PROTECTED_NAMES or part.startswith(".")
    return is_seen and is_meant and fnmatchcase(name, _loosen_braces(part))
