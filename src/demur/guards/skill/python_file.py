"""Scan a Python file by its syntax tree, with every check in turn.

Text that the file would run as Python or as a shell command is scanned as well; its hits are
placed at the call that runs it. Nothing is imported or run.
"""

import ast
import re
from collections.abc import Iterator

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.calls import EXECUTORS, PROCESSES
from demur.guards.skill.document import Document
from demur.guards.skill.instruction import see_instructions
from demur.guards.skill.obfuscation import see_blobs, see_lookalikes
from demur.guards.skill.python_damage import see_damage, see_native_tricks, see_startup_writes
from demur.guards.skill.python_execution import (
    executed_text,
    see_executions,
    see_hidden_names,
    see_unpickling,
)
from demur.guards.skill.python_import import see_imports
from demur.guards.skill.python_install import see_install_hooks
from demur.guards.skill.python_process import (
    command_text,
    see_downloads,
    see_processes,
    see_reverse_shells,
)
from demur.guards.skill.python_secret import see_secrets
from demur.guards.skill.python_source import Check, PythonSource
from demur.guards.skill.shell_file import scan_shell
from demur.guards.skill.sighting import Sighting, milder

__all__ = ["scan_python", "see_codec"]

_CHECKS: tuple[Check, ...] = (
    see_imports,
    see_executions,
    see_hidden_names,
    see_unpickling,
    see_processes,
    see_downloads,
    see_reverse_shells,
    see_secrets,
    see_damage,
    see_startup_writes,
    see_native_tricks,
    see_install_hooks,
)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Codecs that turn the file into other code than a reader sees.
_TRANSFORMS = re.compile(
    r"utf[-_]?(?:7|16|32)|unicode[-_]escape|raw[-_]unicode[-_]escape|rot[-_]?13|punycode|idna"
    r"|(?:hex|base64|zlib|bz2|uu|quopri)(?:[-_]codec)?"
)
_DEEPEST = 3


def scan_python(
    document: Document, config: SkillConfig, *, depth: int = 0, snippet: bool = False
) -> Iterator[Sighting]:
    """Yield the hits in a file.

    A file that cannot be parsed is a hit itself; a snippet may be incomplete.
    """
    source = PythonSource(document, config)
    if source.trouble is not None and not snippet:
        line, column, problem = source.trouble
        start = document.offset(line, column)
        yield Sighting("UNPARSED", start, start, f"cannot be parsed: {problem}"[:110])
    for check in _CHECKS:
        try:
            yield from check(source)
        except RecursionError:
            # A check that fails must not stop the others.
            yield Sighting("UNPARSED", 0, 0, "nested too deep to be judged in full")
    yield from see_lookalikes(document.text)
    yield from see_blobs(document.text)
    if depth < _DEEPEST:
        yield from _nested(source, depth)
    yield from _texts(source)


def _nested(source: PythonSource, depth: int) -> Iterator[Sighting]:
    """Yield the hits in texts that the file runs, placed at the call that runs them."""
    for call, path in source.calls:
        if path in EXECUTORS and call.args:
            text = executed_text(source, call)
            if text:
                inner = Document(source.document.path, text)
                for seen in scan_python(inner, source.config, depth=depth + 1, snippet=True):
                    yield _at(source, call, seen)
        elif path in PROCESSES and call.args:
            text = command_text(source, call)
            if text:
                yield from (_at(source, call, seen) for seen in scan_shell(text))


def _at(source: PythonSource, call: ast.Call, seen: Sighting) -> Sighting:
    place = source.see(seen.rule, call, seen.detail)
    return seen._replace(start=place.start, end=place.end)


def _texts(source: PythonSource) -> Iterator[Sighting]:
    """Yield instructions in docstrings, which hosts pass to models as descriptions."""
    for node in source.nodes:
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text)) as constant), *_])
                | ast.FunctionDef(
                    body=[ast.Expr(value=ast.Constant(value=str(text)) as constant), *_]
                )
                | ast.AsyncFunctionDef(
                    body=[ast.Expr(value=ast.Constant(value=str(text)) as constant), *_]
                )
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str(text)) as constant), *_])
            ):
                for seen in see_instructions(text):
                    place = source.see(seen.rule, constant, seen.detail)
                    action = seen.action and milder(seen.action)
                    yield seen._replace(start=place.start, end=place.end, action=action)
            case _:
                pass


def see_codec(data: bytes) -> Iterator[Sighting]:
    """Yield a declared encoding that makes the file run as other text than it shows."""
    for line in data.split(b"\n", 2)[:2]:
        found = _COOKIE.match(line)
        if found and _TRANSFORMS.fullmatch(name := found[1].decode("ascii").lower()):
            detail = f"the file is to be decoded by `{name[:40]}`"
            yield Sighting("PY_CODEC", 0, 0, detail, {"technique": "source encoding"})
