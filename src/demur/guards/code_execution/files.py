"""Judge the files that a tool would read or write, by path and by content.

A path is judged by the rules of redirections and of `cat` and `rm`, so a file tool is no way
around them. A written text is judged as the program that it is: a package script, a recipe, a step
of a workflow, a hook, a script, or the cells of a notebook. It does not run yet, so only rules that
no ordinary script meets count there.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml

from demur.guards.code_execution.call import Arg, CommandHit
from demur.guards.code_execution.context import LocatedHit, Location, SourceMap
from demur.guards.code_execution.effects import EffectKind, FileEffect, rules_for_effect
from demur.guards.code_execution.event import (
    CommandConfig,
    FileAccess,
    FileOperation,
    FileRequest,
    Language,
)
from demur.guards.code_execution.launchers import CodeLanguage
from demur.guards.code_execution.paths import (
    WorkspaceBounds,
    canonical_path,
    is_agent_note,
    path_spellings,
    start_folder,
    workspace_bounds,
)
from demur.guards.code_execution.program_walk import read_code
from demur.guards.code_execution.rules import COMMAND_RULES, parse_yaml
from demur.guards.code_execution.script_walk import ScriptWalk
from demur.model.finding import Action

_MAX_CONTENT_LENGTH = 400_000
_EFFECTS = {
    FileOperation.READ: (EffectKind.READ,),
    FileOperation.WRITE: (EffectKind.WRITE,),
    FileOperation.DELETE: (EffectKind.DELETE,),
    FileOperation.UNKNOWN: (EffectKind.READ, EffectKind.WRITE),
}
# Rules that count in a text that is written and not run, besides those that block.
_LATER_RULES = frozenset({"DATA_SENT", "DECODED_RUN"})
# A throwaway machine runs the steps of a workflow: deleting its folders frees room.
_PASSED_IN_WORKFLOWS = frozenset({"DELETE_SYSTEM", "DELETE_HOME", "DELETE_OUTSIDE"})


class CodePart(NamedTuple):
    """A part of a file that is code; `passed` are rules that do not count in it.

    `is_library`: its callers name the paths, so a guess at what it deletes says nothing.
    """

    language: Language
    text: str
    passed: frozenset[str] = frozenset()
    is_library: bool = False


def find_file_hits(event: FileRequest, config: CommandConfig) -> list[LocatedHit]:
    """Return the hits in the files of a tool call; each has the span of its path."""
    places = list(dict.fromkeys(_working_places(event.cwd, config)))
    walk = ScriptWalk(config, places[0].bounds, places[0].folder)
    start, left = 0, _MAX_CONTENT_LENGTH
    for access in event.accesses:
        span = (start, start + len(access.path))
        location = Location(SourceMap(None, *span), depth=1)
        found = (hit for place in places for hit in _path_hits(access, place))
        for hit, verb in dict.fromkeys(found):
            walk.report(hit, *span, verb, location)
        if access.content is not None and access.operation is not FileOperation.READ:
            if left > 0:
                walk.hits += _content_hits(access, config, location)
            else:
                walk.report(CommandHit("TOO_LONG", access.path), *span, "write", location)
            left -= len(access.content)
        start = span[1] + 1
    return walk.hits


class _WorkingPlace(NamedTuple):
    """A folder that relative paths may begin in, and what counts as the project there."""

    folder: str
    bounds: WorkspaceBounds
    has_project: bool


# INVARIANT: a folder that a call of a file tool names lifts no rule.
def _working_places(cwd: str | None, config: CommandConfig) -> Iterator[_WorkingPlace]:
    """Yield the places from which to judge the paths of a call that names the folder `cwd`.

    The model chose `cwd`, and a tool can ignore it: only the settings say where a project is.
    """
    bounds = workspace_bounds(config, None)
    start = start_folder(bounds, None)
    has_project = bool(config.workspace)
    yield _WorkingPlace(start, bounds, has_project)
    for form in path_spellings(cwd) if cwd else ():
        folder = canonical_path(form, start)
        yield _WorkingPlace(folder, bounds, has_project)
        yield _WorkingPlace(folder, workspace_bounds(config, folder), has_project=True)


# INVARIANT: a file tool meets every rule that a redirection to the same path meets.
def _path_hits(access: FileAccess, place: _WorkingPlace) -> Iterator[tuple[CommandHit, str]]:
    """Yield the rules that an access meets by its path, as written and as links lead."""
    forms = path_spellings(access.path)
    if access.resolved is not None and access.resolved not in forms:
        forms = (*forms, access.resolved)
    asks = place.has_project and access.is_named and access.operation is FileOperation.WRITE
    for form in forms:
        target = Arg(form, 0, len(form))
        for kind in _EFFECTS[access.operation]:
            append = kind is EffectKind.WRITE and not access.whole
            effect = FileEffect(kind, target, tree=access.tree, append=append)
            for hit in rules_for_effect(effect, place.folder, place.bounds):
                if hit.rule != "WRITE_OUTSIDE":
                    yield hit, str(kind)
                elif access.operation is not FileOperation.UNKNOWN:
                    known = not asks or is_agent_note(canonical_path(form, place.folder))
                    yield (hit if known else CommandHit("FILE_OUTSIDE", form)), str(kind)


def _content_hits(
    access: FileAccess, config: CommandConfig, location: Location
) -> Iterator[LocatedHit]:
    """Yield the hits in the text that a tool would write."""
    path = path_spellings(access.path)[-1].replace("\\", "/")
    name = posixpath.basename(path)
    bounds = workspace_bounds(config, None)
    inner = location._replace(via=(name,))
    for part in find_code_parts(path, (access.content or "")[:_MAX_CONTENT_LENGTH]):
        walk = ScriptWalk(config, bounds, start_folder(bounds, None))
        text = part.text[: config.longest].replace("\0", " ")
        arg = Arg(text, 0, len(text))
        try:
            read_code(CodeLanguage(part.language.value), arg, walk, inner)
        except RecursionError:  # the caller's own stack may be nearly used up
            walk.report(CommandHit("NESTED_TOO_DEEP"), 0, 0, "", inner)
        if len(part.text) > len(text) and _RUNS_BY_ITSELF.search(path):
            yield LocatedHit(CommandHit("TOO_LONG", name), *location.source[1:], "", inner.via)
        for item in walk.hits:
            if part.is_library and item.guessed and item.hit.rule.startswith("DELETE_"):
                continue
            counts = COMMAND_RULES[item.hit.rule].action is Action.BLOCK
            if (counts or item.hit.rule in _LATER_RULES) and item.hit.rule not in part.passed:
                yield item


_RUNS_BY_ITSELF = re.compile(
    r"(?i)/?(?:package\.json|setup\.py|conftest\.py|[^/]*makefile|\.ya?ml|\.husky/.+|\.git/hooks/.+)$"
)
_SHEBANG = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?([a-z]+)")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_BY_EXTENSION = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh", ".envrc", ".command"), Language.SHELL),
    **dict.fromkeys((".py", ".pyw", ".pyi"), Language.PYTHON),
    **dict.fromkeys((".ps1", ".psm1"), Language.POWERSHELL),
    **dict.fromkeys((".bat", ".cmd"), Language.CMD),
}


def find_code_parts(path: str, text: str) -> Iterator[CodePart]:
    """Yield the parts of a file that are code, by its name and its first line."""
    lower = f"/{path.lower().lstrip('/')}"
    for pattern, read in _FILE_READERS:
        if pattern.search(lower):
            yield from read(text)
            return
    shebang = _SHEBANG.match(text)
    program = shebang[1] if shebang else ""
    extension = posixpath.splitext(lower.rpartition("/")[2].lstrip("."))[1]
    language = _BY_EXTENSION.get(extension or lower[lower.rfind("/.") + 1 :])
    if program in _SHELLS or _HOOK_FILE.search(lower):
        language = Language.SHELL
    elif program == "python":
        language = Language.PYTHON
    if language is not None:
        is_library = language is Language.PYTHON and not _RUNS_BY_ITSELF.search(lower)
        yield CodePart(language, text, is_library=is_library)


_HOOK_FILE = re.compile(r"/\.husky/[^_/][^/]*$|/\.git/hooks/[^/]+$|/\.(?:bash|zsh)?(?:rc|profile)$")
_SCRIPT_PAIR = re.compile(r'"[\w:@./-]{1,80}"\s*:\s*("(?:[^"\\]|\\.){3,}")')
_TASK_PAIR = re.compile(r'"(?:command|windows|linux|osx)"\s*:\s*("(?:[^"\\]|\\.)+")')


def _read_package(text: str) -> Iterator[CodePart]:
    """Yield the scripts of a `package.json`; of a fragment, every value that could be one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        yield from (CodePart(Language.SHELL, value) for value in _paired_texts(_SCRIPT_PAIR, text))
        return
    scripts = document.get("scripts") if isinstance(document, dict) else None
    for value in scripts.values() if isinstance(scripts, dict) else ():
        for line in value if isinstance(value, list) else [value]:
            if isinstance(line, str):
                yield CodePart(Language.SHELL, line)


def _read_tasks(text: str) -> Iterator[CodePart]:
    yield from (CodePart(Language.SHELL, value) for value in _paired_texts(_TASK_PAIR, text))


def _paired_texts(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for found in pattern.finditer(text):
        try:
            yield str(json.loads(found[1], strict=False))
        except ValueError:
            yield found[1]


_MAKE_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_MAKE_SHELL = re.compile(r"\$\(shell\s+([^)]*)\)|!=\s*(.+)")


def _read_makefile(text: str) -> Iterator[CodePart]:
    """Yield the recipes of a makefile, and what `$(shell …)` runs."""
    whole = text.replace("\\\n", " ")
    lines = [
        line.lstrip("\t @-+") for line in whole.splitlines() if line.startswith(("\t", "    "))
    ]
    lines += [found[1] or found[2] for found in _MAKE_SHELL.finditer(whole)]
    # A variable of make is set in the file or by its caller, so it is no empty one.
    recipe = _MAKE_VARIABLE.sub(r"./\1", "\n".join(lines)).replace("$$", "$")
    yield CodePart(Language.SHELL, recipe)


_STEP_KEYS = frozenset(
    {"run", "script", "before_script", "after_script", "entry", "bash", "sh", "command", "cmd"}
)
_STEP_LINE = re.compile(
    r"(?m)^\s*(?:-\s+)?(?:(?:run|script|entry|bash|command)\s*:\s*[|>]?[-+]?)?\s*(.*)$"
)


def _read_workflow(text: str) -> Iterator[CodePart]:
    """Yield the steps of a workflow; of a fragment, every line that could be one."""
    try:
        document = parse_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        document = None
    texts = list(_step_texts(document)) if isinstance(document, dict | list) else []
    if not texts:
        lines = (found[1] for found in _STEP_LINE.finditer(text))
        texts = ["\n".join(line.strip("'\"") for line in lines)]
    yield from (CodePart(Language.SHELL, one, _PASSED_IN_WORKFLOWS) for one in texts)


def _step_texts(document: Any) -> Iterator[str]:
    waiting, visited = [document], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in visited:  # an alias leads to it again
            continue
        visited.add(id(value))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if key in _STEP_KEYS:
                lines = item if isinstance(item, list) else [item]
                yield "\n".join(line for line in lines if isinstance(line, str))
            if isinstance(item, dict | list):
                waiting.append(item)


def _read_notebook(text: str) -> Iterator[CodePart]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    cells = document.get("cells") if isinstance(document, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type", "code") == "code":
            source = cell.get("source", "")
            lines = source if isinstance(source, list) else [source]
            yield from split_cell("".join(str(line) for line in lines))


_CELL_MAGIC = re.compile(r"\s*%%(\w+)[ \t]*(\S*)[^\n]*\n?")
_LINE_MAGIC = re.compile(
    r"(?m)^[ \t]*(?:[\w, ]+=[ \t]*)?(?:!!?|%(?:sx|system|sc)\b)(.*(?:\\\n.*)*)$"
)
_OTHER_MAGIC = re.compile(r"(?m)^[ \t]*%{1,2}\w.*$")
_SHELL_MAGICS = _SHELLS | {"sx", "system"}


def split_cell(source: str) -> Iterator[CodePart]:
    """Yield the code of a notebook cell: Python, and the commands of its magics."""
    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        body, name = source[magic.end() :], magic[1].lower()
        program = posixpath.basename(magic[2]) if name == "script" else name
        if program in _SHELL_MAGICS:
            yield CodePart(Language.SHELL, body)
            return
        if program == "cmd":
            yield CodePart(Language.CMD, body)
            return
        if name == "writefile":
            yield from find_code_parts(magic[2], body)
            return
        source = body
    commands = [found[1].strip() for found in _LINE_MAGIC.finditer(source)]
    if commands:
        yield CodePart(Language.SHELL, "\n".join(commands))
    rest = _OTHER_MAGIC.sub("pass", _LINE_MAGIC.sub("pass", source))
    if rest.strip():
        yield CodePart(Language.PYTHON, rest)


_FileReader = Callable[[str], Iterator[CodePart]]
_FILE_READERS: tuple[tuple[re.Pattern[str], _FileReader], ...] = (
    (re.compile(r"/(?:package|composer)\.json$"), _read_package),
    (re.compile(r"/\.vscode/tasks\.json$"), _read_tasks),
    (re.compile(r"/(?:gnu)?makefile[^/]*$|\.mk$|/justfile$"), _read_makefile),
    (
        re.compile(
            r"/\.github/(?:workflows|actions)/.+\.ya?ml$|/action\.ya?ml$|/\.gitlab-ci\.ya?ml$"
            r"|/\.circleci/config\.ya?ml$|/azure-pipelines[^/]*\.ya?ml$|/\.travis\.ya?ml$"
            r"|/bitbucket-pipelines\.ya?ml$|/\.pre-commit-(?:config|hooks)\.ya?ml$"
        ),
        _read_workflow,
    ),
    (re.compile(r"\.ipynb$"), _read_notebook),
)
