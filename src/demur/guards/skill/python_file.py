"""Scan a Python file by its syntax tree, with every check in turn.

Text that the file would run as Python or as a shell command is scanned as well; its hits are
placed at the call that runs it. Nothing is imported or run.
"""

import ast
import re
from collections.abc import Iterator

from demur.codes.reason_code import ReasonCode
from demur.guards.code_execution.event import Language
from demur.guards.skill.event import SkillConfig
from demur.guards.skill.python_checks import (
    PythonCheck,
    PythonSource,
    executed_text,
    find_executions,
    find_hidden_names,
    find_imports,
    find_install_hooks,
    find_unpickling,
)
from demur.guards.skill.python_effects import (
    command_text,
    find_damage,
    find_downloads_run,
    find_native_injection,
    find_processes,
    find_reverse_shells,
    find_sent_secrets,
    find_startup_writes,
)
from demur.guards.skill.python_spying import (
    find_clipboard_swaps,
    find_encrypted_files,
    find_registry_starts,
    find_stored_logins,
)
from demur.guards.skill.rules import SkillHit, soften_action
from demur.guards.skill.text_checks import (
    find_blobs,
    find_instructions,
    find_lookalikes,
    scan_shell,
)
from demur.guards.static.python_names import EXECUTORS, PROCESSES
from demur.guards.static.source_text import SourceText
from demur.model.finding import Action

_CHECKS: tuple[PythonCheck, ...] = (
    find_imports,
    find_executions,
    find_hidden_names,
    find_unpickling,
    find_processes,
    find_downloads_run,
    find_reverse_shells,
    find_sent_secrets,
    find_damage,
    find_startup_writes,
    find_native_injection,
    find_install_hooks,
    find_stored_logins,
    find_encrypted_files,
    find_clipboard_swaps,
    find_registry_starts,
)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Codecs that turn the file into other code than a reader sees.
_TRANSFORMS = re.compile(
    r"utf[-_]?(?:7|16|32)|unicode[-_]escape|raw[-_]unicode[-_]escape|rot[-_]?13|punycode|idna"
    r"|(?:hex|base64|zlib|bz2|uu|quopri)(?:[-_]codec)?"
)
_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MAX_NESTING = 3
# Rules of the checks here that say the same as a rule of the command guard.
_SAME_AS = {"DOWNLOAD_RUN": frozenset({"PY_EXEC_REMOTE", "PY_DOWNLOAD_RUN", "PY_INSTALL_HOOK"})}
_DELETIONS = frozenset({"PY_DESTROYS", "PY_DESTROYS_SYSTEM"})
_DESTRUCTIVE = (ReasonCode.IRRECOVERABLE_DESTRUCTION, ReasonCode.UNAPPROVED_DESTRUCTION)


def scan_python(
    document: SourceText, config: SkillConfig, *, depth: int = 0, snippet: bool = False
) -> Iterator[SkillHit]:
    """Yield the hits in a file.

    A file that cannot be parsed is a hit itself; a snippet may be incomplete.
    """
    source = PythonSource(document, config)
    if source.trouble is not None and not snippet:
        line, column, problem = source.trouble
        start = document.to_offset(line, column)
        yield SkillHit("UNPARSED", start, start, f"cannot be parsed: {problem}"[:110])
    known: set[str] = set()
    for check in _CHECKS:
        try:
            for hit in check(source):
                known.add(hit.rule)
                yield hit
        except RecursionError:
            # A check that fails must not stop the others.
            yield SkillHit("UNPARSED", 0, 0, "nested too deep to be judged in full")
    yield from find_lookalikes(document.text)
    yield from find_blobs(document.text)
    if depth < _MAX_NESTING:
        nested = list(_scan_nested(source, depth))
        yield from nested
        yield from _scan_reached(source, known.union(hit.rule for hit in nested))
    yield from _scan_docstrings(source)


def _scan_nested(source: PythonSource, depth: int) -> Iterator[SkillHit]:
    """Yield the hits in texts that the file runs, placed at the call that runs them."""
    for call, path in source.calls:
        if path in EXECUTORS and call.args:
            text = executed_text(source, call)
            if text:
                inner = SourceText(source.document.path, text)
                for hit in scan_python(inner, source.config, depth=depth + 1, snippet=True):
                    yield _place_at_call(source, call, hit)
        elif path in PROCESSES and call.args:
            text = command_text(source, call)
            if text:
                yield from (_place_at_call(source, call, hit) for hit in scan_shell(text))


def _scan_reached(source: PythonSource, known: set[str]) -> Iterator[SkillHit]:
    """Yield deletions, and downloads that run, which no check above found."""
    for hit in scan_shell(source.document.text, Language.PYTHON):
        same = _SAME_AS.get(hit.rule, _DELETIONS if hit.code in _DESTRUCTIVE else None)
        if same is None or hit.action is Action.WARN:
            continue
        if hit.rule not in known and known.isdisjoint(same):
            yield hit


def _place_at_call(source: PythonSource, call: ast.Call, hit: SkillHit) -> SkillHit:
    place = source.hit(hit.rule, call, hit.detail)
    return hit._replace(start=place.start, end=place.end)


def _scan_docstrings(source: PythonSource) -> Iterator[SkillHit]:
    """Yield instructions in docstrings, which hosts pass to models as descriptions."""
    for node in source.nodes:
        if not isinstance(node, _DOCUMENTED):
            continue
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str(text)) as constant), *_]:
                for hit in find_instructions(text):
                    place = source.hit(hit.rule, constant, hit.detail)
                    action = hit.action and soften_action(hit.action)
                    yield hit._replace(start=place.start, end=place.end, action=action)
            case _:
                pass


def find_codec(data: bytes) -> Iterator[SkillHit]:
    """Yield a declared encoding that makes the file run as other text than it shows."""
    for line in data.split(b"\n", 2)[:2]:
        found = _COOKIE.match(line)
        if found and _TRANSFORMS.fullmatch(name := found[1].decode("ascii").lower()):
            detail = f"the file is to be decoded by `{name[:40]}`"
            yield SkillHit("PY_CODEC", 0, 0, detail, {"technique": "source encoding"})
