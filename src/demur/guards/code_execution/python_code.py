"""Judge Python by its syntax tree: its imports, its calls, and the texts that may reach them.

Names are followed in the order of lines, without branches: a call is judged by the values that the
lines above it assigned last.
"""

import ast
from collections.abc import Iterator

from demur.guards.code_execution.call import Arg, CommandHit, Value
from demur.guards.code_execution.context import Location, Walker
from demur.guards.code_execution.effects import EffectKind, FileEffect
from demur.guards.code_execution.other_languages import read_calls
from demur.guards.code_execution.python_calls import (
    CALL_HANDLERS,
    HANDLER_KINDS,
    IMPORTERS,
    METHOD_HANDLERS,
    PROCESS_MODULES,
    PythonWalk,
)
from demur.guards.code_execution.python_reach import (
    PythonReach,
    constant_texts,
    is_code,
    is_command,
    takes_hidden_ways,
)
from demur.guards.static.python_names import collect_names
from demur.guards.static.python_syntax import parse_python

_MAX_NODES = 20_000
_MAX_DELETERS = 50
_NATIVE = frozenset({"ctypes", "cffi", "_ctypes"})
# Ways to reach a function without its name.
_LOOKUPS = frozenset({"globals", "locals", "vars", "eval", "exec", "getattr", "__dict__"})


def read_python(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as Python; text that does not parse is judged by its calls alone."""
    tree = parse_python(arg.text)
    inner = location.enter(arg)
    if tree is None:
        walker.report(CommandHit("UNREADABLE", "python"), 0, len(arg.text), "python", inner)
        read_calls(arg, walker, location)
        return
    walk = PythonWalk(arg.text, walker, inner, read_python)
    _judge_module(tree, walk)
    _judge_reached_texts(tree, walk)


def _judge_reached_texts(tree: ast.Module, walk: PythonWalk) -> None:
    """Judge the texts that may reach a function which runs or deletes what it is given."""
    names = walk.names.static
    nodes = list(ast.walk(tree))[:_MAX_NODES]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and id(node) not in called:
            walk.is_unclear |= HANDLER_KINDS.get(walk.function_name(node)) == "run"
    location = walk.location._replace(guessed=True)
    if walk.is_unclear or takes_hidden_ways(nodes):
        for text, node in constant_texts(tree, names):
            arg = walk.located_arg(Value(text), node)
            if is_code(text):
                walk.read_guess(arg, location)
            elif is_command(text):
                walk.walker.walk_shell(arg, location)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    passed = [call for call in calls if _passes_deleter(call, walk)]
    deleters = [*walk.unclear_deletions, *passed]
    if not deleters and not walk.unclear_runs:
        return
    reach = PythonReach(tree)
    _judge_reached_paths(deleters, reach, walk, location)
    for call in walk.unclear_runs:
        if not reach.reaches_constants(call.args[:1] or [call]):
            walk.report("CODE_UNKNOWN", call, walk.function_name(call.func))


def _passes_deleter(node: ast.Call, walk: PythonWalk) -> bool:
    """Whether a call is given a function that deletes files, or calls one by a lookup."""
    parts = [*node.args, *(word.value for word in node.keywords)]
    return any(
        HANDLER_KINDS.get(walk.function_name(part)) == "delete"
        or (isinstance(part, ast.Attribute) and part.attr in {"unlink", "rmdir"})
        for part in parts
    )


def _judge_reached_paths(
    deleters: list[ast.Call], reach: PythonReach, walk: PythonWalk, location: Location
) -> None:
    for node in deleters[:_MAX_DELETERS]:
        start, end = walk.source.node_span(node)
        for root in reach.reached_from([node]):
            for text, _ in constant_texts(root, walk.names.static):
                if text.startswith(("/", "~")):
                    target = Arg(text, start, end)
                    effect = FileEffect(EffectKind.DELETE, target, tree=True)
                    walk.walker.report_effect(effect, start, end, "python", location)


def _judge_module(tree: ast.Module, walk: PythonWalk) -> None:
    """Judge a module: imports first, then each statement in the order of lines."""
    walk.names.static = collect_names(tree, ast.walk(tree))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)][:_MAX_NODES]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for imported in imports:
        walk.names.modules.update(_imported_names(imported))
    for node in nodes:
        _bind_names(node, walk)
    idle = _idle_calls(tree)
    for call in calls:
        unclear_modules, unclear_runs = set(walk.unclear_modules), list(walk.unclear_runs)
        _judge_call(call, walk)
        if id(call) in idle:
            # Nothing here calls the function, so what its parameter holds runs nowhere.
            walk.unclear_modules, walk.unclear_runs = unclear_modules, unclear_runs
    _report_socket_shell(calls, walk)
    for imported in imports:
        names = [name.name for name in imported.names]
        if isinstance(imported, ast.ImportFrom):
            names = [imported.module or ""]
        for name in names:
            _report_import(name.partition(".")[0], imported, walk, dynamic=False)
            written = walk.walker.read_written(f"{name.replace('.', '/')}.py")
            if written.text:
                start, end = walk.source.node_span(imported)
                walk.read_nested(Arg(written.text, start, end, written.known, written.taints))


def _idle_calls(tree: ast.Module) -> frozenset[int]:
    """Return the calls that get a parameter of a function which nothing in the file uses."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if not _LOOKUPS.isdisjoint(used | attributes):
        return frozenset()
    found: set[int] = set()
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            continue
        named = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        if function.name not in used:
            found.update(
                id(call)
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                and call.args
                and isinstance(call.args[0], ast.Name)
                and call.args[0].id in named
            )
    return frozenset(found)


def _imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with its dotted name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name


def _bind_names(node: ast.expr | ast.stmt, walk: PythonWalk) -> None:
    """Record the values that names get by assignment, `with` or `for`."""
    for target, value in _bound_values(node):
        if isinstance(target, ast.Name):
            walk.names.values[target.id] = walk.names.evaluate_node(value)
            walk.open_files[target.id] = walk.opened_path(value)
            if isinstance(value, ast.Call | ast.Attribute):
                walk.names.modules[target.id] = walk.names.dotted_name(value)
        elif isinstance(target, ast.Attribute) and target.attr == "executable":
            walk.names.values["sys.executable"] = walk.names.evaluate_node(value)


def _bound_values(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            match target, node.value:
                case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                    yield from zip(targets, values, strict=False)
                case _:
                    yield target, node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        yield node.target, ast.BinOp(node.target, node.op, node.value)
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items)
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _judge_call(node: ast.Call, walk: PythonWalk) -> None:
    name = walk.function_name(node.func)
    walk.called_modules.add(name.partition(".")[0].removesuffix("()"))
    if name in IMPORTERS and node.args:
        module = walk.names.evaluate_node(node.args[0]).text.partition(".")[0]
        _report_import(module, node, walk, dynamic=True)
    _, dot, method = name.rpartition(".")
    if handler := CALL_HANDLERS.get(name) or (METHOD_HANDLERS.get(method) if dot else None):
        handler(walk, node, name)


def _report_import(
    module: str, node: ast.expr | ast.stmt, walk: PythonWalk, *, dynamic: bool
) -> None:
    """Report a module that starts processes or reaches native memory."""
    if module in walk.walker.config.imports:
        return
    if module in _NATIVE:
        walk.report("NATIVE_CODE", node, module)
    elif module in PROCESS_MODULES:
        plain = module in walk.called_modules and module not in walk.unclear_modules and not dynamic
        walk.report("PROCESS_MODULE" if plain else "PROCESS_IMPORT", node, module)


def _report_socket_shell(calls: list[ast.Call], walk: PythonWalk) -> None:
    """Report a socket that is connected to a shell's input and output."""
    named = [(walk.names.dotted_name(call.func), call) for call in calls]
    sockets = [(name, call) for name, call in named if name.startswith("socket.")]
    ends = (".connect", ".create_connection")
    connects = [call for name, call in sockets if name.endswith(ends)]
    if not connects:
        return
    walk.unclear_modules.add("socket")
    inputs = [item.value for call in calls for item in call.keywords if item.arg == "stdin"]
    fed = any(walk.names.dotted_name(value).startswith("socket.") for value in inputs)
    if fed or any(name in {"os.dup2", "pty.spawn"} for name, _ in named):
        walk.report("REVERSE_SHELL", connects[0], "socket")
