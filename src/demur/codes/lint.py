"""Find misused reason codes in Python sources and YAML policies.

`lint_paths` walks files and folders and reads each file by its kind. It runs and imports
nothing. `lint_to_sarif` writes the result for code review tools.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from demur.codes.lint_python import check_python
from demur.codes.lint_rules import (
    CODE_RULES,
    CodeLintRule,
    LintLevel,
    LocatedDiagnostic,
    unreadable_file,
)
from demur.codes.lint_yaml import check_yaml
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError

_PYTHON = (".py",)
_YAML = (".yaml", ".yml")
_SKIPPED = frozenset({"__pycache__", "node_modules"})


class CodeMisuse(NamedTuple):
    """One misused code: its place, the rule, and help. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    rule: str
    severity: LintLevel
    message: str
    help: str


def lint_paths(paths: Iterable[Path | str], registry: Registry) -> list[CodeMisuse]:
    """Return every misused code in the files and folders, sorted by path, line and column.

    A file that is named is always read: as Python if it ends in `.py` or starts
    with a Python shebang, else as YAML. In folders only `.py`, `.yaml` and `.yml` count.

    Raises:
        InputError: A path does not exist, or there is no file to read.
    """
    if isinstance(paths, str | os.PathLike):
        raise InputTypeError.wrong_type("paths", "a list of paths", paths)
    named = [Path(path) for path in paths]
    for path in named:
        try:
            path.stat()
        except OSError as error:
            raise InputError(str(error.strerror).lower(), where=str(path)) from error
        except ValueError as error:
            raise InputError("not a path", where=str(path)) from error
    files: dict[Path, Path] = {}
    found: list[CodeMisuse] = []
    for path in named:
        for file in _walk_files(path, found):
            files.setdefault(file.absolute(), file)
    if not files and not found:
        where = ", ".join(map(str, named))
        help_text = "folders are searched for .py, .yaml and .yml files"
        raise InputError("there is nothing to lint", where=where, help=help_text)
    for file in files.values():
        found += _lint_file(file, registry)
    return sorted(set(found))


def lint_source(path: str, source: bytes, registry: Registry) -> list[CodeMisuse]:
    """Return every misused code in `source`, read as the kind of file that `path` names."""
    # INVARIANT: whatever a file holds, linting it returns misuses and raises nothing.
    read = check_python if _is_python(path, source) else check_yaml
    return sorted({_make_misuse(path, diagnostic) for diagnostic in read(source, registry)})


def _is_python(path: str, source: bytes) -> bool:
    if path.endswith((*_PYTHON, *_YAML)):
        return path.endswith(_PYTHON)
    return source.startswith(b"#!") and b"python" in source.partition(b"\n")[0]


def _lint_file(file: Path, registry: Registry) -> list[CodeMisuse]:
    try:
        source = file.read_bytes()
    except OSError as error:
        return [_report_unreadable(file, error)]
    return lint_source(str(file), source, registry)


def _walk_files(path: Path, problems: list[CodeMisuse]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    walk = os.walk(path, onerror=lambda error: problems.append(_report_unreadable(path, error)))
    for folder, folders, names in walk:
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in _SKIPPED)
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith((*_PYTHON, *_YAML)) and not _is_special(file):
                yield file


def _is_special(file: Path) -> bool:
    """Return whether this is not a regular file. Reading a pipe might never end."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def _report_unreadable(path: Path, error: OSError) -> CodeMisuse:
    where = str(error.filename or path)
    return _make_misuse(where, unreadable_file(f"cannot read: {str(error.strerror).lower()}"))


def _make_misuse(path: str, diagnostic: LocatedDiagnostic) -> CodeMisuse:
    rule = CODE_RULES[diagnostic.rule]
    line, column, _, message, advice, _ = diagnostic
    return CodeMisuse(path, line, column, rule.id, rule.level, message, advice)


_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULE_INDEXES = {rule: index for index, rule in enumerate(CODE_RULES)}


def lint_to_sarif(misuses: Iterable[CodeMisuse]) -> dict[str, object]:
    """Return the misuses as a SARIF log of one run, with every rule described."""
    rules = [_sarif_rule(rule) for rule in CODE_RULES.values()]
    run = {
        "tool": {"driver": {"name": "demur codes lint", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(misuse) for misuse in misuses],
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: CodeLintRule) -> dict[str, object]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    }


def _sarif_result(misuse: CodeMisuse) -> dict[str, object]:
    region = {"startLine": misuse.line, "startColumn": misuse.column}
    place = {"artifactLocation": {"uri": _relative_uri(misuse.path)}, "region": region}
    return {
        "ruleId": misuse.rule,
        "ruleIndex": _RULE_INDEXES[misuse.rule],
        "level": misuse.severity,
        "message": {"text": f"{misuse.message}\nhelp: {misuse.help}"},
        "locations": [{"physicalLocation": place}],
    }


def _relative_uri(path: str) -> str:
    """Return a relative path as a relative reference, so that it means the same elsewhere."""
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(os.fsencode(place.as_posix()))
