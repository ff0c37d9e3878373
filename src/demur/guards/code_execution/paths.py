r"""Classify paths: workspace, scratch, home, system, disk or elsewhere; and files known by name.

A path is classified by its text; nothing is looked up. Windows paths are converted to the same form
(`C:\Windows` is `/windows`, `%TEMP%` is scratch), so that one table serves all.
"""

import posixpath
import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import unquote

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
    """The folders in which the agent may write and delete, and the files it may not change."""

    workspace: tuple[str, ...]
    scratch: tuple[str, ...]
    home: str = HOME
    protected: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def workspace_bounds(config: CommandConfig, cwd: str | None) -> WorkspaceBounds:
    """Return the workspace for commands in `cwd`."""
    workspace = config.workspace or ((cwd,) if cwd else ())
    folders = tuple(canonical_path(folder, "/") for folder in workspace)
    scratch = tuple(canonical_path(folder, "/") for folder in config.scratch)
    # A workspace below a home directory tells which home `~` is.
    home = next((match[0] for folder in folders if (match := _HOMES.match(folder))), HOME)
    protected = tuple(canonical_path(path, "/").lower() for path in config.protected)
    return WorkspaceBounds(folders or (_NOWHERE,), scratch, home, protected)


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
    while found := _PROCESS_LINK.match(path):
        base = "/" if found[1] == "root" else cwd
        path = posixpath.normpath(posixpath.join(base, path[found.end() :].lstrip("/")))
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


_PROCESS_LINK = re.compile(r"/{1,2}proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(root|cwd)(?=/|$)")
_FILE_SCHEME = re.compile(r"(?i)file:(?://[^/]*)?")
_HOME_START = re.compile(
    r"~(?=/|$)|\$\{?HOME\}?(?=/|$)|\$\{?XDG_CONFIG_HOME\}?(?=/|$)|~(\w[\w.-]*)(?=/|$)"
)


def path_spellings(text: str) -> tuple[str, ...]:
    """Return the paths that a tool may open for `text`.

    Tools differ in whether they expand `~`, decode `%2e` or stop at a null byte, so each reading
    counts.
    """
    plain = text.strip()
    scheme = _FILE_SCHEME.match(plain)
    plain = plain[scheme.end() :] if scheme else plain
    forms = [plain, *([unquote(plain)] if "%" in plain else [])]
    forms += [form.partition("\0")[0] for form in forms if "\0" in form]
    return tuple(dict.fromkeys(_expand_home(form.replace("\0", "").strip()) for form in forms))


def _expand_home(path: str) -> str:
    found = _HOME_START.match(path)
    if found is None:
        return path
    home = HOME if found[1] is None else "/root" if found[1] == "root" else f"/home/{found[1]}"
    home += "/.config" * ("XDG" in found[0])
    return home + path[found.end() :]


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
    if _workspace_relation(whole, bounds.scratch) or _patterns()["cache"].match(whole):
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


def write_rule(path: str, bounds: WorkspaceBounds | None = None) -> str:
    """Return the rule on writing `path`, if any."""
    if not _any_written().search(path):
        return ""
    for rule, pattern in _written_rules().items():
        found = pattern.search(path)
        if found and not (bounds and _is_project_copy(path, found.start(), bounds)):
            return rule
    return ""


_PLACED_BY_SYSTEM = re.compile(
    r"(?i)/(?:(?:etc|usr|lib|var|library|sys|private)/|\.config/|\.[a-z_]+$)"
)


def _is_project_copy(path: str, start: int, bounds: WorkspaceBounds) -> bool:
    """Whether a project keeps a copy of a file that only counts in its own place.

    `project/etc/cron.d/x` and `dotfiles/.bashrc` run by themselves only from `/` and from a home.
    """
    if not start or bounds.workspace[0] == _NOWHERE or not _PLACED_BY_SYSTEM.match(path, start):
        return False
    inside = _workspace_relation(path, bounds.workspace) is PathKind.INSIDE
    return inside and not _WHOLE_HOMES.fullmatch(path[:start])


# INVARIANT: no effect but reading reaches a protected file without a hit.
def changes_own_files(path: str, bounds: WorkspaceBounds, *, tree: bool = False) -> bool:
    """Whether `path` is a file of demur itself, by its name or as the settings name it.

    With `tree`, a folder that holds one counts as well. A pattern counts if it names one.
    """
    if _patterns()["own"].search(path):
        return True
    if not bounds.protected:
        return False
    if path == HOME or path.startswith(f"{HOME}/"):
        path = bounds.home + path[len(HOME) :]
    plain = path.lower().rstrip("/")
    # The root has rules of its own.
    holds = tree and plain != ""
    is_pattern = _WILDCARD.search(plain) is not None
    return any(
        plain == own
        or plain.startswith(f"{own}/")
        or (holds and own.startswith(f"{plain}/"))
        or (is_pattern and _may_name(plain, own, tree=tree))
        for own in bounds.protected
    )


_WILDCARD = re.compile(r"[*?\[]")


def _may_name(pattern: str, own: str, *, tree: bool) -> bool:
    """Whether a shell's pattern names a protected file, one inside of it, or a folder above it.

    A last `*` names everything, and so nothing in particular. A set counts as any character, since
    shells know more sets than `fnmatch`, and the pattern is in lower case.
    """
    parts, names = _CHARACTER_SET.sub("?", pattern).split("/"), own.split("/")
    if len(parts) <= len(names) and _ALL.fullmatch(parts[-1]):
        return False
    is_reached = len(parts) >= len(names) or tree
    return is_reached and all(map(fnmatchcase, names, parts))


# A set of characters, in which a `]` may stand first, or in a class such as `[:alpha:]`. One
# without an end counts as well, so that the search takes linear time.
_CHARACTER_SET = re.compile(r"\[[!^]?\]?(?:\[([:.=])[^][/]{0,20}\1\]|[^]/])*(?:\]|(?=/|$))")


def is_agent_note(path: str) -> bool:
    """Whether `path` is one of the plans and notes that an agent keeps in the home directory."""
    return bool(_patterns()["agent_notes"].search(path))


def delete_rule(path: str) -> str:
    """Return the rule on deleting `path` by its name, whatever its kind, if any."""
    return "DELETE_LOGS" if _patterns()["logs"].search(path) else ""


def is_system_critical(path: str) -> bool:
    """Whether the system needs `path` in order to start or to let people in."""
    return bool(_patterns()["critical"].search(path))
