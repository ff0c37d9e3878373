"""Where in a Python file a reason code stands, by its syntax tree.

Arguments of demur itself are certain. Beyond them only names that speak of
reason codes count, so that an ordinary program has no such place at all.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.usage.imports import Imports
from demur.codes.usage.rules import Place, Trust

__all__ = ["CodePlace", "code_places", "member_name"]

_BY_NAME = {
    "codes": Place(Trust.LIKELY),
    "default_reason_code": Place(Trust.NAMED),
    "reason_code": Place(Trust.NAMED),
    "reason_codes": Place(Trust.NAMED),
    "resolved_codes": Place(Trust.NAMED, emits=False),
}
_ARGUMENT = {
    "ReasonCode": 0,
    "Refusal.of": 0,
    "classify": 1,
    "conclude": 1,
    "explain": 0,
    "format_refusal": 0,
}
_LOOKS_UP = frozenset({"Grant", "ReasonCode", "explain", "sign_grant"})
_COLLECTS = frozenset({"add", "append", "extend", "insert", "update"})
_PASSES_ON = frozenset({"frozenset", "list", "set", "sorted", "str", "tuple"})


class CodePlace(NamedTuple):
    """An expression at a place for a reason code."""

    node: ast.expr
    place: Place


def code_places(nodes: Iterable[ast.AST], imports: Imports) -> Iterator[CodePlace]:
    """Yield every expression among `nodes` that should be one reason code."""
    for node in nodes:
        for value, place in _places(node, imports):
            for leaf in _leaves(value, imports):
                yield CodePlace(leaf, place)


def _places(node: ast.AST, imports: Imports) -> Iterator[CodePlace]:
    match node:
        case ast.Call():
            yield from _call(node, imports)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _named(_name(target), value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _named(_name(target), value)
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from _named(_name(target), value)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from _named(_text(key), value)
        case ast.arguments():
            yield from _defaults(node)
        case ast.Subscript(value=enum, slice=key) if _tail(imports.path(enum)) == "ReasonCode":
            yield CodePlace(key, Place(Trust.CERTAIN, emits=False))
        case _:
            pass


def _call(node: ast.Call, imports: Imports) -> Iterator[CodePlace]:
    path = imports.path(node.func)
    function = _tail(path)
    if path is None:
        yield from _foreign_call(node)
        return
    place = Place(Trust.CERTAIN, emits=function not in _LOOKS_UP)
    yield from _argument(node, _ARGUMENT.get(function), place)
    for keyword in node.keywords:
        if keyword.arg == "resolved_codes":
            yield CodePlace(keyword.value, place._replace(emits=False))
        elif keyword.arg == "code" or keyword.arg in _BY_NAME:
            yield CodePlace(keyword.value, place)


def _foreign_call(node: ast.Call) -> Iterator[CodePlace]:
    for keyword in node.keywords:
        yield from _named(keyword.arg, keyword.value)
    # A helper of the same name is most likely a copy of ours or a wrapper.
    if _name(node.func) == "format_refusal":
        yield from _argument(node, 0, Place(Trust.NAMED))
    if isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
        for argument in node.args:
            yield from _named(_name(node.func.value), argument)


def _argument(node: ast.Call, index: int | None, place: Place) -> Iterator[CodePlace]:
    if index is None or len(node.args) <= index:
        return
    # After a starred argument the position is unknown.
    if not any(isinstance(argument, ast.Starred) for argument in node.args[: index + 1]):
        yield CodePlace(node.args[index], place)


def _defaults(node: ast.arguments) -> Iterator[CodePlace]:
    positional = [*node.posonlyargs, *node.args]
    given = positional[len(positional) - len(node.defaults) :]
    for parameter, default in zip(given, node.defaults, strict=True):
        yield from _named(parameter.arg, default)
    for parameter, keyword_default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        if keyword_default is not None:
            yield from _named(parameter.arg, keyword_default)


def _named(name: str | None, value: ast.expr) -> Iterator[CodePlace]:
    if name in _BY_NAME:
        yield CodePlace(value, _BY_NAME[name])


def _name(node: ast.expr) -> str | None:
    """Return the name of an assignment target or a called function."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key):
            return _text(key)
        case _:
            return None


def _text(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _tail(path: str | None) -> str:
    """Return the last part of a path, or the last two of a method that takes a code."""
    parts = [] if path is None else path.split(".")
    method = ".".join(parts[-2:])
    return method if method in _ARGUMENT else "".join(parts[-1:])


def _leaves(node: ast.expr, imports: Imports) -> Iterator[ast.expr]:
    """Yield the single codes in a value: items of displays, branches of conditionals."""
    for part in _parts(node, imports):
        if part is node:
            yield node
        else:
            yield from _leaves(part, imports)


def _parts(node: ast.expr, imports: Imports) -> list[ast.expr]:
    parts = [node]
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            parts = items
        case ast.BoolOp(values=values):
            parts = values
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.ListComp(elt=value) | ast.SetComp(elt=value) | ast.GeneratorExp(elt=value):
            parts = [value]
        case ast.Starred(value=value) | ast.NamedExpr(value=value):
            parts = [value]
        case ast.BinOp(left=left, right=right) if _is_display(left) or _is_display(right):
            parts = [left, right]
        case ast.Attribute(value=value, attr="value") if member_name(value, imports):
            parts = [value]
        case ast.Call(func=function, args=[value]) if _passes_on(function, imports):
            parts = [value]
        case _:
            pass
    return parts


def _passes_on(function: ast.expr, imports: Imports) -> bool:
    """Return whether a call returns the codes in its argument unchanged."""
    if isinstance(function, ast.Name) and function.id in _PASSES_ON:
        return True
    return _tail(imports.path(function)) == "ReasonCode"


def _is_display(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple | ast.Set)


def member_name(node: ast.AST, imports: Imports) -> str | None:
    """Return the member that `ReasonCode.MEMBER` names, or None if `node` is not that."""
    if not isinstance(node, ast.Attribute) or not node.attr.isupper():
        return None
    return node.attr if _tail(imports.path(node.value)) == "ReasonCode" else None
