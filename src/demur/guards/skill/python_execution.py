"""Code that makes code: exec, eval, unpickling, and names that are put together."""

import ast
from collections.abc import Iterator

from demur.guards.skill.calls import EXECUTORS, PROCESSES, UNPICKLERS
from demur.guards.skill.flow import ValueOrigin
from demur.guards.skill.python_source import PythonSource
from demur.guards.skill.sighting import SkillHit
from demur.model.finding import Action

__all__ = ["executed_text", "find_executions", "find_hidden_names", "find_unpickling"]

_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_HOLDERS = frozenset({"builtins", "__builtins__", "os", "subprocess", "sys", "importlib"})
_DANGEROUS = EXECUTORS | PROCESSES | {"__import__", "compile"}


def find_executions(source: PythonSource) -> Iterator[SkillHit]:
    """Yield every call that runs text as Python."""
    for call, path in source.calls:
        if path in EXECUTORS and call.args:
            yield _execution_hit(source, call, path)


def executed_text(source: PythonSource, call: ast.Call) -> str | None:
    """Return the literal text that a call runs as code, or None."""
    return source.constant_text(_code_expression(source, call))


def _code_expression(source: PythonSource, call: ast.Call) -> ast.expr:
    """Return the expression that holds the code, inside a `compile` if there is one."""
    first = call.args[0]
    if (
        isinstance(first, ast.Call)
        and source.names.dotted_path(first.func) == "compile"
        and first.args
    ):
        return first.args[0]
    return first


def _execution_hit(source: PythonSource, call: ast.Call, path: str) -> SkillHit:
    code = _code_expression(source, call)
    origin, folded = source.flow.origin_of(code), source.names.fold(code)
    quote = source.quote_source(call)
    if ValueOrigin.REMOTE in origin:
        return source.make_hit("PY_EXEC_REMOTE", call, f"runs what it downloads: `{quote}`")
    if ValueOrigin.DECODED in origin or (folded and folded.hidden and _was_decoded(code)):
        return source.make_hit(
            "PY_EXEC_DECODED", call, f"runs decoded text: `{quote}`", technique="decoded and run"
        )
    if folded is not None:
        return source.make_hit("PY_EXEC_LITERAL", call, f"runs a text by `{path}`: `{quote}`")
    return source.make_hit("PY_EXEC_DYNAMIC", call, f"runs text made at run time: `{quote}`")


def _was_decoded(node: ast.expr) -> bool:
    """Return whether a constant was reversed, rotated or built from numbers."""
    return any(
        isinstance(part, ast.Subscript)
        or (isinstance(part, ast.Name) and part.id == "chr")
        or (isinstance(part, ast.Attribute) and part.attr == "decode")
        for part in ast.walk(node)
    )


def find_hidden_names(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls whose function is reached by an assembled name."""
    told: set[int] = set()
    for call, path in source.calls:
        if path in _DANGEROUS and source.names.is_disguised(call.func):
            told.add(id(call.func))
            detail = f"reaches `{path}` by a disguised name"
            yield source.make_hit("PY_HIDDEN_NAME", call, detail, technique="assembled name")
        elif path == "getattr" and len(call.args) > 1 and id(call) not in told:
            yield from _check_lookup(source, call)


def _check_lookup(source: PythonSource, call: ast.Call) -> Iterator[SkillHit]:
    holder = source.names.dotted_path(call.args[0])
    if holder not in _HOLDERS:
        return
    name = source.names.fold(call.args[1])
    if name is None and holder in {"builtins", "__builtins__"}:
        yield source.make_hit(
            "PY_EXEC_DYNAMIC", call, f"picks a builtin at run time: `{source.quote_source(call)}`"
        )
    elif name is not None and name.hidden:
        yield source.make_hit(
            "PY_HIDDEN_NAME",
            call,
            f"reaches `{holder}.{str(name.value)[:40]}` by a disguised name",
            technique="assembled name",
        )


def find_unpickling(source: PythonSource) -> Iterator[SkillHit]:
    """Yield calls that load data which can carry code."""
    for call, path in source.calls:
        if path not in UNPICKLERS or not call.args or _is_safe_load(source, call, path):
            continue
        origin = source.flow.origin_of(call.args[0])
        detail = f"reads data that can carry code: `{source.quote_source(call)}`"
        if ValueOrigin.REMOTE in origin:
            yield source.make_hit("PY_UNPICKLE_REMOTE", call, detail)
        elif ValueOrigin.DECODED in origin:
            literal = source.names.fold(call.args[0]) is not None
            action = Action.BLOCK if literal else None
            yield source.make_hit(
                "PY_UNPICKLE_DECODED", call, detail, action, technique="decoded and unpickled"
            )
        else:
            yield source.make_hit("PY_UNPICKLE", call, detail)


def _is_safe_load(source: PythonSource, call: ast.Call, path: str) -> bool:
    if path == "torch.load":
        return any(keyword.arg == "weights_only" for keyword in call.keywords)
    if not path.startswith("yaml.load"):
        return False
    loaders = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "Loader")]
    named = (source.names.dotted_path(loader) or _last_name(loader) for loader in loaders)
    return any(name.rpartition(".")[2] in _SAFE_LOADERS for name in named)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
