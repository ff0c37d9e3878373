"""Code that runs without being called: hooks of an installation, and files of Python's start."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from demur.guards.skill.calls import EXECUTORS, PROCESSES, is_network
from demur.guards.skill.document import SourceText
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import SkillHit

__all__ = ["find_install_hooks", "find_path_file_code"]

_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETUP = frozenset({"setup.py"})
_RUNS = re.compile(r"^import[ \t].*$", re.MULTILINE)


def find_install_hooks(source: PythonSource) -> Iterator[SkillHit]:
    """Yield hooks of `setup.py` that act, and files that Python runs at every start."""
    name = PurePosixPath(source.document.path).name
    if name in _AT_START:
        yield source.make_hit("PY_STARTUP_FILE", source.tree, f"`{name}` runs at every start")
    if name in _SETUP:
        yield from _scan_setup(source)


def _scan_setup(source: PythonSource) -> Iterator[SkillHit]:
    yield from _command_hooks(source)
    inside = {
        id(part)
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
    }
    for call, path in source.calls:
        if id(call) not in inside and is_network(path):
            yield source.make_hit(
                "PY_INSTALL_HOOK", call, f"reaches out: `{source.quote_source(call)}`"
            )
            return


def _command_hooks(source: PythonSource) -> Iterator[SkillHit]:
    """Yield the command classes that start programs, run text or use the network."""
    named = {
        part.id
        for call, _ in source.calls
        for keyword in call.keywords
        if keyword.arg == "cmdclass"
        for part in ast.walk(keyword.value)
        if isinstance(part, ast.Name)
    }
    paths = {id(call): path for call, path in source.calls}
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and node.name in named:
            called = (paths.get(id(part)) for part in ast.walk(node))
            if any(path in PROCESSES | EXECUTORS or is_network(path) for path in called):
                yield source.make_hit(
                    "PY_INSTALL_HOOK", node, f"`{node.name}` acts at installation"
                )


def find_path_file_code(document: SourceText) -> Iterator[SkillHit]:
    """Yield the lines of a `.pth` file that Python runs."""
    for found in _RUNS.finditer(document.text):
        yield SkillHit("PY_STARTUP_FILE", *found.span(), "a line of a path file that is run")
