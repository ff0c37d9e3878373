"""A guard of the files that hold the agent in check: a change waits for approval.

Code: APPROVAL_REQUIRED, for a tool that may write one of those files, and for a command that
names one and does more than read. The guard is strict: a command that it cannot fully read
counts as one that writes. Limits: the agent works as the same user. A program that builds a path
while it runs is not seen, nor is one that was written before.
"""

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.tool_effects import list_commands
from demur.guards.tool_arguments import UnreadableArgumentsError, read_arguments
from demur.guards.tool_call import ToolCall
from demur.guards.tool_manifest import tool_finding
from demur.model.finding import Action, Finding

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
    relative paths; without one, only their names count. `places` are the values of variables and
    `~`.

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
            # A daemon works in a folder of its own, so the system would start elsewhere.
            or (Path(whole).is_absolute() and self._is_listed(_real_path(whole)))
        )

    def is_mentioned(self, word: str) -> bool:
        """Return whether a word of a command may name a protected file, from any folder."""
        last = posixpath.basename(_normalize_path(word)).lower()
        names = {posixpath.basename(file) for file in self.files}
        if self._has_protected_name(word) or last in names:
            return True
        if last in _SETTINGS_NAMES and not _names_folder(word):
            return True
        whole = self._full_path(word).lower()
        return self._is_listed(whole) or (_is_pattern(whole) and self._is_matched(whole))

    def has_some_inside(self, word: str) -> bool:
        """Return whether a word is a folder with protected files; not a home or a project."""
        whole = self._full_path(word).lower()
        some = any(_is_inside(one, whole) for one in (*self.files, *self.folders))
        return some and not self._holds_place(whole)

    def _is_matched(self, pattern: str) -> bool:
        """Return whether a pattern names a protected file, or a folder with some inside."""
        for path in (*self.files, *self.folders):
            named = _matched_path(pattern, path)
            if named == path or (named and not self._holds_place(named)):
                return True
        return False

    def _holds_place(self, whole: str) -> bool:
        """Return whether a folder is the home or the project, or above one of them."""
        known = (self.project.lower(), dict(self.places).get("HOME", "").lower())
        return any(place == whole or _is_inside(place, whole) for place in known if place)

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


def _matched_path(pattern: str, path: str) -> str:
    """Return the path, or the folder above it, that a pattern matches; or an empty text."""
    if "**" in pattern or any("/" in braces for braces in _BRACES.findall(pattern)):
        starts_alike = pattern.partition("/")[0] == path.partition("/")[0]
        return path if starts_alike and fnmatchcase(path, _loosen_braces(pattern)) else ""
    parts, names = pattern.split("/"), path.split("/")
    alike = parts[0] == names[0] and all(map(_matches_part, parts[1:], names[1:]))
    return "/".join(names[: len(parts)]) if alike else ""


def _matches_part(part: str, name: str) -> bool:
    """Return whether a part of a path is a name, or a pattern of it as a shell reads one."""
    if not _is_pattern(part):
        return part == name
    is_seen = not name.startswith(".") or part.startswith((".", "[", "{"))
    return is_seen and fnmatchcase(name, _loosen_braces(part))


def _matches_name(part: str, name: str) -> bool:
    """Return whether a part of a path names a protected file."""
    # A pattern such as `*` matches every name, so it does not name a protected file.
    is_meant = name not in _PROTECTED_NAMES or not _is_pattern(part) or part.startswith(".")
    return is_meant and _matches_part(part, name)


_PUNCTUATION = "();<>|&\n"
_WORD_SEPARATORS = re.compile(r"""[\s'"`=:;@()<>|&+]+""")
_QUOTES = re.compile(r"""['"\\]""")
# No path is longer.
_MAX_WORD_LENGTH = 4096
_MAX_COMMAND_LENGTH = 10_000
_SUBSTITUTION = re.compile(r"`|\$\(|[<>]\(")
_SED_PRINT = re.compile(r"[\d,$]+p")
_READING_PROGRAMS = frozenset(
    {
        "cat",
        "bat",
        "head",
        "tail",
        "less",
        "more",
        "nl",
        "wc",
        "file",
        "stat",
        "ls",
        "tree",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "jq",
        "diff",
        "cmp",
        "md5sum",
        "sha256sum",
        "pwd",
        "cd",
        "echo",
        "printf",
        "test",
        "[",
        "true",
        "realpath",
        "readlink",
        "basename",
        "dirname",
    }
)
_SAFE_GIT_COMMANDS = frozenset(
    {"add", "blame", "commit", "diff", "grep", "log", "ls-files", "show", "status"}
)
_FIND_ACTIONS = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls")


def split_words(text: str) -> set[str]:
    """Return all words of a command that may be paths, with and without its quotes."""
    # A comma separates words, or belongs to a pattern: `.{a,b}`.
    forms = (text, text.replace(",", " "), _QUOTES.sub("", text))
    words = {word for form in forms for word in _WORD_SEPARATORS.split(form)}
    return {word for word in words if 0 < len(word) <= _MAX_WORD_LENGTH}


def only_reads_files(text: str, is_protected: Callable[[str], bool]) -> bool:
    """Return whether a command clearly only reads, and changes into no protected folder.

    A command that cannot be fully read counts as one that writes.
    """
    if len(text) > _MAX_COMMAND_LENGTH or _SUBSTITUTION.search(text):
        return False
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        commands = [words for words in _split_commands(iter(lexer)) if words]
    except ValueError:
        return False
    return all(_is_read_only(words, is_protected) for words in commands)


def _is_read_only(words: list[str], is_protected: Callable[[str], bool]) -> bool:
    program, *rest = words
    match program:
        case "cd":
            return not any(map(is_protected, rest))
        case "git":
            writes = any(word.startswith("--output") for word in rest)
            return rest[:1] != [] and rest[0] in _SAFE_GIT_COMMANDS and not writes
        case "find":
            return not any(word.startswith(_FIND_ACTIONS) for word in rest)
        case "sed":
            return rest[:1] == ["-n"] and _SED_PRINT.fullmatch("".join(rest[1:2])) is not None
        case _:
            return program in _READING_PROGRAMS


def _split_commands(tokens: Iterator[str]) -> Iterator[list[str]]:
    """Yield the commands of a text, each as its words.

    Raises:
        ValueError: A command writes to a file, or cannot be read.
    """
    words: list[str] = []
    for word in tokens:
        if set(word) - set(_PUNCTUATION):
            words.append(word)
        elif ">" in word:
            # `/dev/null` and other streams are no files.
            target = next(tokens, "")
            if target != "/dev/null" and not (word == ">&" and target.isdigit()):
                raise ValueError(word)
        elif "<" not in word:
            yield words
            words = []
    yield words


_WRITING_TOOLS = {
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
}
_READING_TOOLS = frozenset(
    {"Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch"}
)
_READ_NAME = re.compile(r"(?:read|get|list|search|grep|glob|find|view|show|stat|fetch)(?![a-z])")
_WRITE_NAME = re.compile(r"write|edit|replace|set|put|update|create|delete|remove|move|save|patch")
# Arguments that are never paths, even if they look like one.
_TEXT_ARGUMENTS = frozenset(
    {"content", "text", "new_string", "old_string", "new_source", "prompt", "description"}
    | {"command", "cmd", "script", "body", "message", "plan", "subject"}
)
_REMOVING_PROGRAMS = frozenset({"rm", "mv", "rmdir", "unlink", "shred", "rename", "rsync"})
_HOOK_INSTALL = re.compile(r"demur\S*\s+hook\s+install")
_MAX_PATH_LENGTH = 4096


class OwnFilesGuard:
    """The guard, as a pipeline takes it."""

    SURFACE = Surface.TOOL_CALL
    CODES: tuple[str, ...] = (ReasonCode.APPROVAL_REQUIRED,)
    # It only resolves links on disk.
    blocking = False

    @staticmethod
    def check(event: ToolCall, config: ProtectedPaths) -> Iterator[Finding]:
        """Yield a finding if a call would change a protected file."""
        return check(event, config)


def check(event: ToolCall, config: ProtectedPaths) -> Iterator[Finding]:
    """Yield a finding if a call would change a protected file."""
    try:
        arguments = read_arguments(event.arguments)
    except UnreadableArgumentsError:
        return
    for text in list_commands(event.name, arguments):
        if _changes_protected(text, config):
            yield _protected_finding(event.name, "COMMAND_ON_OWN_SETTINGS")
            return
    if any(map(config.is_protected, _written_paths(event.name, arguments))):
        yield _protected_finding(event.name, "OWN_SETTINGS")


def _changes_protected(text: str, protected: ProtectedPaths) -> bool:
    if _HOOK_INSTALL.search(_QUOTES.sub("", text)):
        return True
    words = split_words(text)
    if any(map(protected.is_mentioned, words)):
        return not only_reads_files(text, protected.is_mentioned)
    return bool(words & _REMOVING_PROGRAMS) and any(map(protected.has_some_inside, words))


def _written_paths(name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in arguments that may be paths of files to write."""
    if name in _WRITING_TOOLS:
        waiting: list[Any] = [arguments.get(argument) for argument in _WRITING_TOOLS[name]]
    elif name in _READING_TOOLS or _is_read_only_tool(name):
        return
    else:
        waiting = [arguments]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [value for key, value in one.items() if key not in _TEXT_ARGUMENTS]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str) and len(one) <= _MAX_PATH_LENGTH and "\n" not in one.strip():
            yield one.strip().removeprefix("file://")


def _is_read_only_tool(name: str) -> bool:
    verb = name.rpartition("__")[2].lower()
    return _READ_NAME.match(verb) is not None and _WRITE_NAME.search(verb) is None


def _protected_finding(tool: str, rule: str) -> Finding:
    return tool_finding(
        tool,
        ReasonCode.APPROVAL_REQUIRED,
        rule=rule,
        detail="it would change what holds the agent in check",
        facts={"action": "change of settings, rules or state"},
        action=Action.ESCALATE,
    )
