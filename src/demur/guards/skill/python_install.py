"""Code that runs without being called: hooks of an installation, and files of Python's start."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from demur.guards.skill.calls import EXECUTORS, PROCESSES, is_network
from demur.guards.skill.document import Document
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import Sighting

__all__ = ["see_install_hooks", "see_path_file"]

_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETUP = frozenset({"setup.py"})
_RUNS = re.compile(r"^import[ \t].*$", re.MULTILINE)


def see_install_hooks(source: PythonSource) -> Iterator[Sighting]:
    """Yield hooks of `setup.py` that act, and files that Python runs at every start."""
    name = PurePosixPath(source.document.path).name
    if name in _AT_START:
        yield source.see("PY_STARTUP_FILE", source.tree, f"`{name}` runs at every start")
    if name in _SETUP:
        yield from _setup(source)


def _setup(source: PythonSource) -> Iterator[Sighting]:
    yield from _commands(source)
    inside = {
        id(part)
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
    }
    for call, path in source.calls:
        if id(call) not in inside and is_network(path):
            yield source.see("PY_INSTALL_HOOK", call, f"reaches out: `{source.quote(call)}`")
            return


def _commands(source: PythonSource) -> Iterator[Sighting]:
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
                yield source.see("PY_INSTALL_HOOK", node, f"`{node.name}` acts at installation")


def see_path_file(document: Document) -> Iterator[Sighting]:
    """Yield the lines of a `.pth` file that Python runs."""
    for found in _RUNS.finditer(document.text):
        yield Sighting("PY_STARTUP_FILE", *found.span(), "a line of a path file that is run")
