"""Code that makes code: exec, eval, unpickling, and names that are put together."""

import ast
from collections.abc import Iterator

from demur.guards.skill.calls import EXECUTORS, PROCESSES, UNPICKLERS
from demur.guards.skill.flow import Origin
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import Sighting
from demur.model.finding import Action

__all__ = ["executed_text", "see_executions", "see_hidden_names", "see_unpickling"]

_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_HOLDERS = frozenset({"builtins", "__builtins__", "os", "subprocess", "sys", "importlib"})
_DANGEROUS = EXECUTORS | PROCESSES | {"__import__", "compile"}


def see_executions(source: PythonSource) -> Iterator[Sighting]:
    """Yield every call that runs text as Python."""
    for call, path in source.calls:
        if path in EXECUTORS and call.args:
            yield _execution(source, call, path)


def executed_text(source: PythonSource, call: ast.Call) -> str | None:
    """Return the literal text that a call runs as code, or None."""
    return source.text(_code(source, call))


def _code(source: PythonSource, call: ast.Call) -> ast.expr:
    """Return the expression that holds the code, inside a `compile` if there is one."""
    first = call.args[0]
    if isinstance(first, ast.Call) and source.names.path(first.func) == "compile" and first.args:
        return first.args[0]
    return first


def _execution(source: PythonSource, call: ast.Call, path: str) -> Sighting:
    code = _code(source, call)
    origin, folded = source.flow.of(code), source.names.fold(code)
    quote = source.quote(call)
    if Origin.REMOTE in origin:
        return source.see("PY_EXEC_REMOTE", call, f"runs what it downloads: `{quote}`")
    if Origin.DECODED in origin or (folded and folded.hidden and _was_decoded(code)):
        return source.see(
            "PY_EXEC_DECODED", call, f"runs decoded text: `{quote}`", technique="decoded and run"
        )
    if folded is not None:
        return source.see("PY_EXEC_LITERAL", call, f"runs a text by `{path}`: `{quote}`")
    return source.see("PY_EXEC_DYNAMIC", call, f"runs text made at run time: `{quote}`")


def _was_decoded(node: ast.expr) -> bool:
    """Return whether a constant was reversed, rotated or built from numbers."""
    return any(
        isinstance(part, ast.Subscript)
        or (isinstance(part, ast.Name) and part.id == "chr")
        or (isinstance(part, ast.Attribute) and part.attr == "decode")
        for part in ast.walk(node)
    )


def see_hidden_names(source: PythonSource) -> Iterator[Sighting]:
    """Yield calls whose function is reached by an assembled name."""
    told: set[int] = set()
    for call, path in source.calls:
        if path in _DANGEROUS and source.names.hides(call.func):
            told.add(id(call.func))
            detail = f"reaches `{path}` by a disguised name"
            yield source.see("PY_HIDDEN_NAME", call, detail, technique="assembled name")
        elif path == "getattr" and len(call.args) > 1 and id(call) not in told:
            yield from _lookup(source, call)


def _lookup(source: PythonSource, call: ast.Call) -> Iterator[Sighting]:
    holder = source.names.path(call.args[0])
    if holder not in _HOLDERS:
        return
    name = source.names.fold(call.args[1])
    if name is None and holder in {"builtins", "__builtins__"}:
        yield source.see(
            "PY_EXEC_DYNAMIC", call, f"picks a builtin at run time: `{source.quote(call)}`"
        )
    elif name is not None and name.hidden:
        yield source.see(
            "PY_HIDDEN_NAME",
            call,
            f"reaches `{holder}.{str(name.value)[:40]}` by a disguised name",
            technique="assembled name",
        )


def see_unpickling(source: PythonSource) -> Iterator[Sighting]:
    """Yield calls that load data which can carry code."""
    for call, path in source.calls:
        if path not in UNPICKLERS or not call.args or _is_safe(source, call, path):
            continue
        origin = source.flow.of(call.args[0])
        detail = f"reads data that can carry code: `{source.quote(call)}`"
        if Origin.REMOTE in origin:
            yield source.see("PY_UNPICKLE_REMOTE", call, detail)
        elif Origin.DECODED in origin:
            literal = source.names.fold(call.args[0]) is not None
            action = Action.BLOCK if literal else None
            yield source.see(
                "PY_UNPICKLE_DECODED", call, detail, action, technique="decoded and unpickled"
            )
        else:
            yield source.see("PY_UNPICKLE", call, detail)


def _is_safe(source: PythonSource, call: ast.Call, path: str) -> bool:
    if path == "torch.load":
        return any(keyword.arg == "weights_only" for keyword in call.keywords)
    if not path.startswith("yaml.load"):
        return False
    loaders = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "Loader")]
    named = (source.names.path(loader) or _last(loader) for loader in loaders)
    return any(name.rpartition(".")[2] in _SAFE_LOADERS for name in named)


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
