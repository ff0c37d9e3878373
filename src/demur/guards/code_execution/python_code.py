"""Reads Python by its syntax tree: what it starts, deletes, writes, fetches, sends and evaluates.

Names are followed in the order of lines, without branches: what a name was given last, above a
call, is what the call is judged by.
"""

import ast
import warnings
from collections.abc import Iterator

from demur.guards.code_execution.call import Sight
from demur.guards.code_execution.host import DEEPEST, Frame, Host
from demur.guards.code_execution.other_code import read_other
from demur.guards.code_execution.python_calls import handler_of
from demur.guards.code_execution.python_reading import Reading
from demur.guards.code_execution.value import Arg

__all__ = ["parsed", "read_python"]

_MOST_NODES = 20_000
_NATIVE = frozenset({"ctypes", "cffi", "_ctypes"})
_PROCESSES = frozenset({"subprocess", "socket", "pty", "popen2", "commands"})
_IMPORTERS = frozenset({"__import__", "importlib.import_module"})


def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of `text`, or None if it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in scanned code must not warn
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_python(arg: Arg, host: Host, frame: Frame) -> None:
    """Judge `arg` as Python; text that does not parse is judged by its calls alone."""
    tree = parsed(arg.text)
    inner = frame._replace(source=frame.source.inner(arg), depth=frame.depth + 1, pipe_start=-1)
    if tree is None:
        host.see(Sight("UNREADABLE", "python"), 0, len(arg.text), "python", inner)
        read_other(arg, host, frame)
        return

    def again(nested: Arg, where: Frame) -> None:
        if where.depth >= DEEPEST:
            host.see(Sight("NESTED_TOO_DEEP"), nested.start, nested.end, "python", where)
        else:
            read_python(nested, host, where)

    _judge(tree, Reading(arg.text, host, inner, again))


def _judge(tree: ast.Module, reading: Reading) -> None:
    """Judge a module: imports first, then each statement in the order of lines."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)][:_MOST_NODES]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for imported in imports:
        reading.names.modules.update(_bound_by(imported))
    for node in nodes:
        _bind(node, reading)
    for call in calls:
        _call(call, reading)
    _handed_over(calls, reading)
    for imported in imports:
        for module in _modules(imported):
            _imported(module, imported, reading, dynamic=False)


def _bound_by(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with its dotted name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]


def _bind(node: ast.expr | ast.stmt, reading: Reading) -> None:
    """Record the values that names get by assignment, `with` or `for`."""
    for target, value in _given(node):
        if isinstance(target, ast.Name):
            reading.names.values[target.id] = reading.names.value(value)
            reading.opened[target.id] = reading.opened_by(value)
            if isinstance(value, ast.Call | ast.Attribute):
                reading.names.modules[target.id] = reading.names.dotted(value)


def _given(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items)
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _call(node: ast.Call, reading: Reading) -> None:
    name = reading.names.dotted(node.func)
    reading.called.add(name.partition(".")[0].removesuffix("()"))
    if name in _IMPORTERS and node.args:
        module = reading.names.value(node.args[0]).text.partition(".")[0]
        _imported(module, node, reading, dynamic=True)
    handler = handler_of(name)
    if handler is not None:
        handler(reading, node, name)


def _imported(module: str, node: ast.expr | ast.stmt, reading: Reading, *, dynamic: bool) -> None:
    """Report a module that starts processes or reaches native memory."""
    if module in reading.host.config.imports:
        return
    if module in _NATIVE:
        reading.see("NATIVE_CODE", node, module)
    elif module in _PROCESSES:
        plain = module in reading.called and module not in reading.unseen and not dynamic
        reading.see("PROCESS_MODULE" if plain else "PROCESS_IMPORT", node, module)


def _handed_over(calls: list[ast.Call], reading: Reading) -> None:
    """Report a socket that is connected to a shell's input and output."""
    named = [(reading.names.dotted(call.func), call) for call in calls]
    connects = [
        call
        for name, call in named
        if name.startswith("socket.") and name.endswith((".connect", ".create_connection"))
    ]
    if not connects:
        return
    reading.unseen.add("socket")
    if any(name in {"os.dup2", "pty.spawn"} for name, _ in named) or _fed_by_socket(calls, reading):
        reading.see("REVERSE_SHELL", connects[0], "socket")


def _fed_by_socket(calls: list[ast.Call], reading: Reading) -> bool:
    """Whether a process gets a socket as its input."""
    inputs = [item.value for call in calls for item in call.keywords if item.arg == "stdin"]
    return any(reading.names.dotted(value).startswith("socket.") for value in inputs)
