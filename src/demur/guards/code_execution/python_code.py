"""Reads Python by its syntax tree: what it starts, deletes, writes, fetches, sends and evaluates.

Names are followed in the order of lines, without branches: what a name was given last, above a
call, is what the call is judged by.
"""

import ast
import warnings
from collections.abc import Iterator

from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.host import MAX_DEPTH, CodeLocation, Walker
from demur.guards.code_execution.other_code import read_other
from demur.guards.code_execution.python_calls import find_handler
from demur.guards.code_execution.python_reading import PythonWalk
from demur.guards.code_execution.value import CommandArg

__all__ = ["parse_python", "read_python"]

_MAX_NODES = 20_000
_NATIVE = frozenset({"ctypes", "cffi", "_ctypes"})
_PROCESSES = frozenset({"subprocess", "socket", "pty", "popen2", "commands"})
_IMPORTERS = frozenset({"__import__", "importlib.import_module"})


def parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of `text`, or None if it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in scanned code must not warn
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_python(arg: CommandArg, walker: Walker, location: CodeLocation) -> None:
    """Judge `arg` as Python; text that does not parse is judged by its calls alone."""
    tree = parse_python(arg.text)
    inner = location._replace(
        source=location.source.map_arg(arg), depth=location.depth + 1, pipe_start=-1
    )
    if tree is None:
        walker.report(CommandHit("UNREADABLE", "python"), 0, len(arg.text), "python", inner)
        read_other(arg, walker, location)
        return

    def again(nested: CommandArg, where: CodeLocation) -> None:
        if where.depth >= MAX_DEPTH:
            walker.report(CommandHit("NESTED_TOO_DEEP"), nested.start, nested.end, "python", where)
        else:
            read_python(nested, walker, where)

    _judge_module(tree, PythonWalk(arg.text, walker, inner, again))


def _judge_module(tree: ast.Module, walk: PythonWalk) -> None:
    """Judge a module: imports first, then each statement in the order of lines."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)][:_MAX_NODES]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for imported in imports:
        walk.names.modules.update(_imported_names(imported))
    for node in nodes:
        _bind_names(node, walk)
    for call in calls:
        _judge_call(call, walk)
    _report_socket_shell(calls, walk)
    for imported in imports:
        for module in _imported_modules(imported):
            _report_import(module, imported, walk, dynamic=False)


def _imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with its dotted name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name


def _imported_modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]


def _bind_names(node: ast.expr | ast.stmt, walk: PythonWalk) -> None:
    """Record the values that names get by assignment, `with` or `for`."""
    for target, value in _bound_values(node):
        if isinstance(target, ast.Name):
            walk.names.values[target.id] = walk.names.evaluate_node(value)
            walk.open_files[target.id] = walk.opened_path(value)
            if isinstance(value, ast.Call | ast.Attribute):
                walk.names.modules[target.id] = walk.names.dotted_name(value)


def _bound_values(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items)
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _judge_call(node: ast.Call, walk: PythonWalk) -> None:
    name = walk.names.dotted_name(node.func)
    walk.called_modules.add(name.partition(".")[0].removesuffix("()"))
    if name in _IMPORTERS and node.args:
        module = walk.names.evaluate_node(node.args[0]).text.partition(".")[0]
        _report_import(module, node, walk, dynamic=True)
    handler = find_handler(name)
    if handler is not None:
        handler(walk, node, name)


def _report_import(
    module: str, node: ast.expr | ast.stmt, walk: PythonWalk, *, dynamic: bool
) -> None:
    """Report a module that starts processes or reaches native memory."""
    if module in walk.walker.config.imports:
        return
    if module in _NATIVE:
        walk.report("NATIVE_CODE", node, module)
    elif module in _PROCESSES:
        plain = module in walk.called_modules and module not in walk.unclear_modules and not dynamic
        walk.report("PROCESS_MODULE" if plain else "PROCESS_IMPORT", node, module)


def _report_socket_shell(calls: list[ast.Call], walk: PythonWalk) -> None:
    """Report a socket that is connected to a shell's input and output."""
    named = [(walk.names.dotted_name(call.func), call) for call in calls]
    connects = [
        call
        for name, call in named
        if name.startswith("socket.") and name.endswith((".connect", ".create_connection"))
    ]
    if not connects:
        return
    walk.unclear_modules.add("socket")
    if any(name in {"os.dup2", "pty.spawn"} for name, _ in named) or _fed_by_socket(calls, walk):
        walk.report("REVERSE_SHELL", connects[0], "socket")


def _fed_by_socket(calls: list[ast.Call], walk: PythonWalk) -> bool:
    """Whether a process gets a socket as its input."""
    inputs = [item.value for call in calls for item in call.keywords if item.arg == "stdin"]
    return any(walk.names.dotted_name(value).startswith("socket.") for value in inputs)
