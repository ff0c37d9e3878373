r"""Classify paths: workspace, scratch, home, system, disk or elsewhere; and files known by name.

A path is classified by its text; nothing is looked up. Windows paths are converted to the same form
(`C:\Windows` is `/windows`, `%TEMP%` is scratch), so that one table serves all.
"""

import posixpath
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple

from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.rules import compile_pattern, read_table

HOME = "/~"
_NOWHERE = "/\ufdd1"
_MAX_CACHED_LENGTH = 256


class PathKind(StrEnum):
    """The kinds of paths."""

    ROOT = "root"
    SYSTEM = "system"
    HOME_ITSELF = "home itself"
    HOME = "home"
    OUTSIDE = "outside"
    SCRATCH = "scratch"
    WORKSPACE_ITSELF = "workspace itself"
    INSIDE = "inside"
    DEVICE = "device"
    STREAM = "stream"
    UNKNOWN = "unknown"


class WorkspaceBounds(NamedTuple):
    """The folders in which the agent may write and delete."""

    workspace: tuple[str, ...]
    scratch: tuple[str, ...]
    home: str = HOME


@lru_cache(maxsize=256)
def workspace_bounds(config: CommandConfig, cwd: str | None) -> WorkspaceBounds:
    """Return the workspace for commands in `cwd`."""
    workspace = config.workspace or ((cwd,) if cwd else ())
    folders = tuple(canonical_path(folder, "/") for folder in workspace)
    scratch = tuple(canonical_path(folder, "/") for folder in config.scratch)
    # A workspace below a home directory tells which home `~` is.
    home = next((match[0] for folder in folders if (match := _HOMES.match(folder))), HOME)
    return WorkspaceBounds(folders or (_NOWHERE,), scratch, home)


def start_folder(bounds: WorkspaceBounds, cwd: str | None) -> str:
    """Return the folder that commands start in, as a canonical path."""
    return canonical_path(cwd, "/") if cwd else bounds.workspace[0]


_WINDOWS = re.compile(r"(?i)[a-z]:[\\/]|[a-z]:$|\\\\|%[a-z]|\$\{?env:|[a-z]:$|\.{0,2}\\")
_VARIABLE = re.compile(r"(?i)%([a-z0-9_()]+)%|\$\{?env:([a-z0-9_()]+)\}?|\$(home)\b")
_DRIVE = re.compile(r"(?i)^(?:\\\\\?\\)?[a-z]:")


def canonical_path(text: str, cwd: str) -> str:
    """Return `text` as an absolute path with slashes, without `.` and `..`."""
    resolve = _resolve_path if len(text) < _MAX_CACHED_LENGTH else _resolve_path.__wrapped__
    return resolve(text, cwd)


@lru_cache(maxsize=4096)
def _resolve_path(text: str, cwd: str) -> str:
    if _WINDOWS.match(text):
        text = _DRIVE.sub("", _VARIABLE.sub(_environment_folder, text))
        text = text.replace("\\", "/").lower() or "/"
        if text.startswith("//"):
            return posixpath.normpath(text)
    path = posixpath.normpath(posixpath.join(cwd, text))
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def _environment_folder(match: re.Match[str]) -> str:
    name = (match[1] or match[2] or match[3]).lower()
    return str(read_table("paths.yaml")["folders"].get(name, f"/{name}"))


_HOMES = re.compile(r"(?i)(?:/~|/root|/home/[^/]+|/users/(?!public)[^/]+)(?=/|$)")
_WHOLE_HOMES = re.compile(rf"{_HOMES.pattern}|/home|/users")
_DISK = re.compile(
    r"/dev/(?:r?disk|[shv]d[a-z]|xvd[a-z]|nvme|mmcblk|loop|md|mapper/|dm-|disk/|da\d|ada\d)"
    r"|(?i://physicaldrive)"
)
_STREAM = re.compile(
    r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty|fd/|pts/|tcp/|udp/)"
)
_KNOWN_VARIABLE = re.compile(r"(?i)\$\{?env:|\$home\b")
_ALL = re.compile(r"(?:\*+|\.\*|\*\.\*|\.\[!\.\]\*|\.\?\*|\?\*|\{\*,\.\*\})")
_GLOB = re.compile(r"/[^/]*[*?\[]")


def classify_path(text: str, cwd: str, bounds: WorkspaceBounds) -> PathKind:
    """Return the kind of the path `text`, relative to `cwd`."""
    if text.startswith("$") and not _KNOWN_VARIABLE.match(text):
        return PathKind.UNKNOWN
    path = canonical_path(text, cwd)
    if path == HOME or path.startswith(f"{HOME}/"):
        path = bounds.home + path[len(HOME) :]
    if path.startswith(("/dev/", "//")):
        if _STREAM.match(path):
            return PathKind.STREAM
        if _DISK.match(path):
            return PathKind.DEVICE
    whole = _emptied_folder(path)
    if inside := _workspace_relation(whole, bounds.workspace):
        return inside
    if _workspace_relation(whole, bounds.scratch):
        return PathKind.SCRATCH
    return PathKind.ROOT if whole == "/" else _outside_kind(whole)


def vital_kind(text: str, cwd: str, bounds: WorkspaceBounds) -> PathKind | None:
    """Return the kind of a path that is the root or a whole home, even if it is the workspace."""
    path = canonical_path(text, cwd)
    path = _emptied_folder(bounds.home + path[len(HOME) :] if path.startswith(HOME) else path)
    if path == "/":
        return PathKind.ROOT
    return PathKind.HOME_ITSELF if _WHOLE_HOMES.fullmatch(path) else None


def _emptied_folder(path: str) -> str:
    """Return the folder that a path such as `/srv/*` empties."""
    head, _, tail = path.rpartition("/")
    while tail and _ALL.fullmatch(tail):
        path = head or "/"
        head, _, tail = path.rpartition("/")
    return path


def _workspace_relation(path: str, folders: tuple[str, ...]) -> PathKind | None:
    """Return the kind of `path` if it is one of the folders or lies in one."""
    for folder in folders:
        if path == folder:
            return PathKind.WORKSPACE_ITSELF
        if path.startswith(folder if folder == "/" else f"{folder}/"):
            return PathKind.INSIDE
        if folder.startswith(path if path == "/" else f"{path}/") and folder != _NOWHERE:
            return None
    return None


def _outside_kind(path: str) -> PathKind:
    """Return the kind of a path outside the workspace and scratch."""
    if home := _HOMES.match(path):
        return PathKind.HOME_ITSELF if home.end() == len(path) else PathKind.HOME
    known = _patterns()["system"].match(path) or _GLOB.match(path)
    return PathKind.SYSTEM if known else PathKind.OUTSIDE


@cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    patterns = read_table("paths.yaml")["patterns"]
    return {name: compile_pattern(alternatives) for name, alternatives in patterns.items()}


@cache
def _written_rules() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of the files that must not be written, by rule."""
    rules = read_table("paths.yaml")["written"]
    return {rule: compile_pattern(alternatives) for rule, alternatives in rules.items()}


@cache
def _any_written() -> re.Pattern[str]:
    return compile_pattern([pattern.pattern for pattern in _written_rules().values()])


def read_rule(path: str) -> str:
    """Return the rule on reading `path`, if any."""
    patterns = _patterns()
    secret = patterns["secret"].search(path)
    if not (secret or patterns["near_secret"].search(path)) or patterns["public"].search(path):
        return ""
    return "SECRET_READ" if secret else "SECRET_NEAR"


def write_rule(path: str) -> str:
    """Return the rule on writing `path`, if any."""
    if not _any_written().search(path):
        return ""
    return next(rule for rule, pattern in _written_rules().items() if pattern.search(path))


def delete_rule(path: str) -> str:
    """Return the rule on deleting `path` by its name, whatever its kind, if any."""
    return "DELETE_LOGS" if _patterns()["logs"].search(path) else ""


def is_system_critical(path: str) -> bool:
    """Whether the system needs `path` in order to start or to let people in."""
    return bool(_patterns()["critical"].search(path))
