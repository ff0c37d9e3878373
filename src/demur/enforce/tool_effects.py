"""What a tool call would do: the commands and code it would run, the files it would touch.

Hosts and servers name their tools as they like, so names and shapes of arguments decide as well as
the tool's name: a text under `cmd` is a command, one under `file_path` is a path, and a text that
begins like a path is one under any name. A tool of unknown kind may read and write.
"""

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from demur.enforce.describe import OpaqueText, extract_texts
from demur.errors import InputError, InputTypeError
from demur.guards.code_execution.event import (
    Command,
    FileAccess,
    FileOperation,
    FileRequest,
)
from demur.guards.code_execution.files import split_cell
from demur.guards.code_execution.paths import path_spellings
from demur.guards.static.source_text import word_set

# Returns the path that links lead to, or None.
ResolvePath = Callable[[str], str | None]

_MAX_FILES = 2_000
_MAX_COMMANDS = 500
_MAX_PATH_LENGTH = 4_096

# Matched against the last part of a tool's name, in lower case and without punctuation. A shell's
# name is enough; `command` or `code` needs a verb such as `run`.
_TOOL = re.compile(
    r"exec|eval|monitor|repl|"
    r"(?:run|exec|execute|eval|evaluate)?(?:in|on|with)?(?:local|remote)?"
    r"(?:bash|zsh|sh|shell|cmd|console|terminal|powershell|pwsh|i?python3?|codeinterpreter)"
    r"(?:ast|cmd|code|command|exec|execute|repl|script|session|tool)*|"
    r"(?:run|exec|execute|eval|evaluate)"
    r"(?:cell|code|command|commandline|commands|expression|javascript|js|script)(?:tool)?|"
    r"(?:jupyter|notebook)(?:run|exec|execute)(?:cell|code)?"
)
_ARGUMENTS = ("command", "commands", "cmd", "script", "code", "query", "input", "source")
_CODE_ARGUMENTS = ("python", "cell", "cell_source", "expression")
_PART = re.compile(r"__|[./:]")
_MARKS = re.compile(r"[^a-z0-9]")


def find_commands(
    name: str, arguments: Mapping[str, Any], command_arguments: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands that a call would run; none for a tool that runs no commands.

    `command_arguments` names further tools, each with the argument that holds its command.

    Raises:
        InputTypeError: The command is neither a text nor a list of words.
    """
    if name in command_arguments:
        yield from _command_texts(arguments.get(command_arguments[name]))
    elif _TOOL.fullmatch(_MARKS.sub("", _PART.split(name)[-1].lower())):
        known = (*_ARGUMENTS, *_CODE_ARGUMENTS)
        named = [arguments[each] for each in known if each in arguments]
        # If no argument has a known name, any of them may hold the command.
        for value in named or arguments.values():
            plain = named or isinstance(value, str) or _are_words(value)
            yield from _command_texts(value) if plain else [extract_texts(value)]


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(word) is str for word in value)


def _command_texts(value: Any) -> Iterator[str]:
    if value is None:
        return
    if _are_words(value):
        # The list may be the words of one command or one command each: check both.
        yield shlex.join(value)
        yield "\n".join(value)
    elif isinstance(value, str) and not isinstance(value, OpaqueText):
        yield value
    else:
        raise InputTypeError.wrong_type("a command", "a text, or a list of words", value)


_COMMAND_NAMES = frozenset(
    {"bash", "cmd", "cmdline", "command", "command_line", "commandline", "commands", "script"}
    | {"shell", "shell_command", "shell_script", "bash_command", "run_command", "exec"}
)
_WORD_NAMES = ("args", "arguments", "argv")
# A `script` of these tools is one for a browser, not for a shell.
_BROWSER_TOOL = re.compile(r"(?i)browser|chrom|firefox|page|playwright|puppeteer|selenium")
_CWD_NAMES = ("cwd", "workdir", "working_dir", "working_directory", "workingDirectory")


def find_named_commands(tool: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts at any depth that stand under the name of a command, for any tool."""
    in_browser = _BROWSER_TOOL.search(tool) is not None
    for value in _objects_in(arguments):
        for key, item in value.items():
            name = _plain_name(key)
            if name not in _COMMAND_NAMES or isinstance(item, OpaqueText):
                continue
            if isinstance(item, str):
                if not (name == "script" and in_browser):
                    yield item
                words = next((value[one] for one in _WORD_NAMES if one in value), None)
                if words and _are_words(words):
                    yield shlex.join([item, *words])
            elif item and _are_words(item):
                yield from _command_texts(item)


def list_commands(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the commands that a call would run, as far as they can be read."""
    try:
        known = list(find_commands(name, arguments, {}))
    except InputTypeError:
        known = []
    return list(dict.fromkeys((*known, *find_named_commands(name, arguments))))


def _objects_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object at or below a value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting += [item for item in one.values() if isinstance(item, Mapping | list | tuple)]
        elif isinstance(one, list | tuple):
            waiting += [item for item in one if isinstance(item, Mapping | list | tuple)]


_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _plain_name(key: str) -> str:
    """Return the name of an argument in snake case."""
    return _CAPITAL.sub("_", key).replace("-", "_").lower()


_MAGIC = re.compile(r"(?m)^[ \t]*(?:[\w, ]+=[ \t]*)?(?:!!?\w|%%?[a-z]\w+)")
_CELL_NAMES = frozenset({"new_source", "cell_source"})


def find_tool_effects(
    name: str,
    arguments: Mapping[str, Any],
    command_arguments: Mapping[str, str],
    resolve: ResolvePath | None = None,
) -> Iterator[Command]:
    """Yield what a call would run, and last the files that it would read or write.

    Raises:
        InputTypeError: A command is neither a text nor a list of words.
        InputError: The call names too many files or commands.
    """
    named = (arguments.get(one) for one in _CWD_NAMES)
    known_folders = dict.fromkeys(one for one in named if isinstance(one, str) and one)
    # If a call names several folders, the tool may use any of them.
    folders: list[str | None] = [*known_folders] or [None]
    known = find_commands(name, arguments, command_arguments)
    texts = dict.fromkeys((*known, *find_named_commands(name, arguments)))
    if len(texts) > _MAX_COMMANDS:
        raise InputError(f"the call runs more than {_MAX_COMMANDS} commands", where="arguments")
    for text in texts:
        yield from (Command(text=text, cwd=folder) for folder in folders)
        if _MAGIC.search(text):
            yield from _cell_commands(text)
    for cell in dict.fromkeys(_notebook_cells(arguments)):
        yield from _cell_commands(cell)
    for folder in folders:
        if accesses := tuple(find_file_accesses(name, arguments, resolve, folder)):
            text = "\n".join(access.path for access in accesses)
            yield FileRequest(text=text, accesses=accesses, cwd=folder)


def _cell_commands(source: str) -> Iterator[Command]:
    for part in split_cell(source):
        yield Command(text=part.text, language=part.language)


def _notebook_cells(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the code that a call puts into the cells of a notebook."""
    for value in _objects_in(arguments):
        if value.get("cell_type", "code") != "code":
            continue
        names = _CELL_NAMES | ({"source"} if "cell_type" in value else set())
        for key in names & value.keys():
            lines = value[key] if isinstance(value[key], list | tuple) else [value[key]]
            yield "".join(line for line in lines if isinstance(line, str))
        cells = value.get("cells")
        for cell in cells if isinstance(cells, list | tuple) else ():
            if isinstance(cell, Mapping) and "cell_type" not in cell:
                yield extract_texts(cell.get("source", ""))


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DELETING = frozenset({"delete", "erase", "remove", "rm", "rmdir", "trash", "unlink"})
_WRITING = word_set(
    "append apply change chmod copy create download dump edit export extract format init"
    " insert install link make mkdir modify move multiedit mv overwrite patch put rename"
    " replace save set store symlink touch truncate unzip update upsert write"
)
_READING = word_set(
    "analyze attach cat check compare count diff download fetch find get grep hash head"
    " import load look open parse print query read search send show summarize tail upload view"
)
_EDITING = frozenset({"edit", "replace"})
_LISTING = frozenset({"exists", "glob", "info", "list", "ls", "stat", "tree"})
_OPERATION_NAMES = ("command", "operation", "action", "mode", "method", "op")
# A `path` of other tools may be that of a page or a route.
_FILE_WORDS = word_set(
    "copy dir directory edit file files folder mkdir move multiedit notebook patch touch write"
)
_FOLDER_WORDS = frozenset({"dir", "directory", "folder", "tree", "recursive", "recursively"})


def _call_words(name: str, arguments: Mapping[str, Any]) -> frozenset[str]:
    """Return the words that say what a call does: those of its name and of its operation."""
    parts = _PART.split(name)
    named = frozenset(word.lower() for word in _WORD.findall(parts[-1] or name))
    known = _DELETING | _WRITING | _READING | _LISTING
    for key in _OPERATION_NAMES if not named & _DELETING else ():
        value = arguments.get(key)
        words = frozenset(value.lower().split("_")) if isinstance(value, str) else frozenset()
        if words & known and len(words) <= 3:
            # Only an editor may do less than its name says: a tool can ignore an argument.
            return words if named & known <= _EDITING else named | words
    return named


_CONTENT_NAMES = word_set(
    "body code_edit content contents data diff file_content file_text insert_text new_content"
    " new_source new_str new_string new_text patch replacement text updated_content"
)
_PATCH_NAMES = frozenset({"diff", "input", "patch", "patch_text"})
_PARTIAL_NAMES = word_set(
    "append code_edit diff edits insert_line insert_text new_str new_string old_str"
    " old_string old_text patch"
)
# Arguments that are texts for people, models or searches, even if they begin like a path.
_TEXT_NAMES = _CONTENT_NAMES | word_set(
    "code comment description expression glob instruction instructions label message name"
    " note old_source old_str old_string old_text pattern plan prompt python query question"
    " reason regex sql subject summary title url"
)
_PATH_NAMES = word_set(
    "directories directory dir dirs file_name filename filenames filepath filepaths folder"
    " folders outfile path paths"
)
_PATH_SUFFIXES = ("_path", "_paths", "_file", "_files", "_filename", "_dir", "_directory")
_WEAK_PATH_NAMES = word_set(
    "dest destination dst file files from in input location notebook out output root source"
    " src target targets to uri uris"
)
_SOURCE_NAMES = ("from", "in_", "input", "source", "src")
_TARGET_NAMES = ("dest", "dst", "out", "save", "to")
_PATH_START = re.compile(r"(?i)/|~[\w./-]*(?:/|$)|\.{1,2}/|file:|\$\{?home\b|[a-z]:[\\/]|\\\\")
_PATH_SHAPE = re.compile(r"[\w@%+~. -]*(?:[/\\][\w@%+~. -]*)+|\.?[\w-]+(?:\.[\w-]+)+|\.\w[\w.-]*")
_WEB_ADDRESS = re.compile(r"(?i)(?!file:)[a-z][a-z0-9+.-]+://")


def find_file_accesses(
    name: str,
    arguments: Mapping[str, Any],
    resolve: ResolvePath | None = None,
    cwd: str | None = None,
) -> Iterator[FileAccess]:
    """Yield each file that a call would read, write or delete, by its arguments.

    A relative path is also resolved from `cwd`, the folder that the call names.

    Raises:
        InputError: The call names too many files.
    """
    words = _call_words(name, arguments)
    only_lists = words & _LISTING and not words & (_DELETING | _WRITING | _READING)
    if only_lists and not any(_content_texts(arguments)):
        return
    for number, access in enumerate(_accesses_in(arguments, words)):
        if number >= _MAX_FILES:
            raise InputError(f"the call names more than {_MAX_FILES} files", where="arguments")
        forms = [access.path]
        # Some tools leave out `x/..` before the system follows links, others do not.
        forms += [posixpath.normpath(access.path)] if ".." in access.path else []
        if resolve is not None and cwd:
            spellings = [one for form in forms for one in path_spellings(form)]
            forms += [posixpath.join(cwd, one) for one in spellings]
        targets = {} if resolve is None else dict.fromkeys(filter(None, map(resolve, forms)))
        yield from (replace(access, resolved=target) for target in targets)
        if not targets:
            yield access


def _accesses_in(arguments: Mapping[str, Any], words: frozenset[str]) -> Iterator[FileAccess]:
    waiting: list[tuple[str, str, Any, Mapping[str, Any]]] = [("", "", arguments, arguments)]
    while waiting:
        place, key, value, owner = waiting.pop()
        if isinstance(value, Mapping):
            if _plain_name(key) in {"files", "contents", "changes"}:
                yield from _keyed_files(value, place, words)
            waiting += [
                (f"{place}.{one}".lstrip("."), one, item, value) for one, item in value.items()
            ]
        elif isinstance(value, list | tuple):
            waiting += [(f"{place}.{i}", key, item, owner) for i, item in enumerate(value)]
        elif isinstance(value, str):
            named = _plain_name(key)
            if named in _PATCH_NAMES and "\n" in value:
                yield from _patched_files(value, place)
            elif (is_named := _is_path(named, value)) is not None:
                yield _file_access(value, place, named, owner, words, is_named=is_named)


def _is_path(name: str, value: str) -> bool | None:
    """Return whether the name marks a value as a path; None if the value is no path."""
    text = value.strip()
    # A tool may resolve `https://../x` as a path, too.
    if not text or (_WEB_ADDRESS.match(text) and ".." not in text):
        return None
    if name in _PATH_NAMES or name.endswith(_PATH_SUFFIXES):
        return True
    if len(text) > _MAX_PATH_LENGTH or "\n" in text:
        return None
    starts = _PATH_START.match(text) is not None
    if name in _WEAK_PATH_NAMES:
        return True if starts or _PATH_SHAPE.fullmatch(text) else None
    if text.lower().startswith("file:"):
        return True
    looks = starts or ("/" in text and _PATH_SHAPE.fullmatch(text))
    return False if looks and name not in _TEXT_NAMES | _COMMAND_NAMES else None


def _file_access(
    path: str,
    place: str,
    name: str,
    owner: Mapping[str, Any],
    words: frozenset[str],
    *,
    is_named: bool,
) -> FileAccess:
    parts = [] if owner.get("path") is None and not is_named else list(_content_texts(owner))
    keys = {_plain_name(key) for key in owner}
    operation = _operation_of(name, words, has_content=bool(parts))
    return FileAccess(
        path=path,
        operation=operation,
        argument=place,
        content="\n".join(parts) if parts and operation is not FileOperation.READ else None,
        whole=bool(parts) and not keys & _PARTIAL_NAMES and not words & {"append", "insert"},
        tree=bool(words & _FOLDER_WORDS) or bool(owner.get("recursive")),
        is_named=is_named and bool(words & _FILE_WORDS or re.search("file|notebook", name)),
    )


def _operation_of(name: str, words: frozenset[str], *, has_content: bool) -> FileOperation:
    """Return what a call does with the file that an argument names."""
    if words & _DELETING:
        return FileOperation.DELETE
    if has_content and words & _READING and not words & _WRITING:
        return FileOperation.UNKNOWN
    if words & _WRITING or has_content:
        moves = words & {"move", "rename", "mv"}
        is_source = name.startswith(_SOURCE_NAMES) and not name.startswith("output")
        return FileOperation.READ if is_source and not moves else FileOperation.WRITE
    if words & (_READING | _LISTING):
        saves = name.startswith(_TARGET_NAMES)
        return FileOperation.WRITE if saves else FileOperation.READ
    return FileOperation.UNKNOWN


def _content_texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts that a call would write, in an object and its edits."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if _plain_name(key) in _CONTENT_NAMES:
            yield from [item] if isinstance(item, str) else _lines_of(item)
        elif depth < 3 and isinstance(item, list | tuple):
            for part in item:
                yield from _content_texts(part, depth + 1)
        elif depth < 3:
            yield from _content_texts(item, depth + 1)


def _lines_of(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        yield "\n".join(line for line in value if isinstance(line, str))


def _keyed_files(
    files: Mapping[str, Any], place: str, words: frozenset[str]
) -> Iterator[FileAccess]:
    """Yield the files of an object whose keys are paths and whose values are texts."""
    operation = FileOperation.DELETE if words & _DELETING else FileOperation.WRITE
    for path, value in files.items():
        content = value if isinstance(value, str) else "\n".join(_content_texts(value))
        if _PATH_SHAPE.fullmatch(path.strip()) and (content or isinstance(value, Mapping)):
            where = f"{place}.{path}"
            yield FileAccess(
                path=path, operation=operation, argument=where, content=content, whole=True
            )


_PATCHED_FILE = re.compile(
    r"(?m)^\*\*\* (?P<verb>Add|Update|Delete) File: (?P<begin>.+)$"
    r"|^\+\+\+ (?:b/)?(?P<diff>[^\t\n]+)|^\*\*\* Move to: (?P<move>.+)$"
)


def _patched_files(patch: str, place: str) -> Iterator[FileAccess]:
    """Yield the files that a patch changes, each with the lines that it adds."""
    heads = list(_PATCHED_FILE.finditer(patch))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        body = patch[head.end() : len(patch) if after is None else after.start()]
        added = "\n".join(line[1:] for line in body.splitlines() if line.startswith("+"))
        path = (head["begin"] or head["diff"] or head["move"]).strip()
        deletes = head["verb"] == "Delete" or path == "/dev/null"
        operation = FileOperation.DELETE if deletes else FileOperation.WRITE
        if path != "/dev/null":
            yield FileAccess(path=path, operation=operation, argument=place, content=added)
