"""Find the expressions of a Python file that hold a reason code.

Arguments of demur's own functions are certain, through every import alias. Elsewhere only
names that mention reason codes count, so an ordinary program has no such place.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.lint_rules import PlaceCertainty, PlaceKind

_ROOT = "demur"
_INSIDE = f"{_ROOT}."
# The names bound by `from demur import *` that take a reason code.
_STAR_NAMES = frozenset(
    {
        "Decision",
        "Finding",
        "Grant",
        "ReasonCode",
        "Refusal",
        "classify",
        "explain",
        "format_refusal",
        "make_decision",
        "sign_grant",
    }
)


class DemurImports:
    """The names in one file that refer to something of demur."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._known: dict[str, str] = {}
        self._everything = False
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if f"{alias.name}.".startswith(_INSIDE):
                        # `import demur.codes` binds `demur`; with `as` it binds the whole path.
                        bound = (alias.asname, alias.name) if alias.asname else (_ROOT, _ROOT)
                        self._known[bound[0]] = bound[1]
            elif isinstance(node, ast.ImportFrom):
                self._bind_members(node)

    def _bind_members(self, node: ast.ImportFrom) -> None:
        if node.level or not f"{node.module}.".startswith(_INSIDE):
            return
        for alias in node.names:
            if alias.name == "*":
                self._everything = True
            else:
                self._known[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def resolve_path(self, node: ast.expr) -> str | None:
        """Return the dotted path below demur that `node` names, or None if it is not demur's."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self._known.get(node.id)
        if root is None and self._everything and node.id in _STAR_NAMES:
            root = f"{_INSIDE}{node.id}"
        return None if root is None else ".".join([root, *reversed(parts)])


_NAMED = PlaceKind(PlaceCertainty.NAMED)
_BY_NAME = {
    "codes": PlaceKind(PlaceCertainty.LIKELY),
    **dict.fromkeys(("default_reason_code", "reason_code", "reason_codes"), _NAMED),
    "resolved_codes": _NAMED._replace(emits=False),
}
# The position of the code among the arguments.
_ARGUMENT = {
    **dict.fromkeys(("ReasonCode", "Refusal.from_code", "explain", "format_refusal"), 0),
    **dict.fromkeys(("classify", "make_decision"), 1),
}
_LOOKS_UP = frozenset({"Grant", "ReasonCode", "explain", "sign_grant"})
_COLLECTS = frozenset({"add", "append", "extend", "insert", "update"})
_PASSES_ON = frozenset({"frozenset", "list", "set", "sorted", "str", "tuple"})


class CodePlace(NamedTuple):
    """An expression at a place for a reason code."""

    node: ast.expr
    place: PlaceKind


def code_places(nodes: Iterable[ast.AST], imports: DemurImports) -> Iterator[CodePlace]:
    """Yield every expression among `nodes` that should be one reason code."""
    for node in nodes:
        for value, place in _find_places(node, imports):
            for leaf in _single_codes(value, imports):
                yield CodePlace(leaf, place)


def _find_places(node: ast.AST, imports: DemurImports) -> Iterator[CodePlace]:
    match node:
        case ast.Call():
            yield from _call_places(node, imports)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _named_place(_target_name(target), value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _named_place(_target_name(target), value)
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from _named_place(_target_name(target), value)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from _named_place(_constant_text(key), value)
        case ast.arguments():
            yield from _default_places(node)
        case ast.Subscript(value=enum, slice=key) if (
            _path_tail(imports.resolve_path(enum)) == "ReasonCode"
        ):
            yield CodePlace(key, PlaceKind(PlaceCertainty.CERTAIN, emits=False))
        case _:
            pass


def _call_places(node: ast.Call, imports: DemurImports) -> Iterator[CodePlace]:
    path = imports.resolve_path(node.func)
    function = _path_tail(path)
    if path is None:
        yield from _foreign_call_places(node)
        return
    place = PlaceKind(PlaceCertainty.CERTAIN, emits=function not in _LOOKS_UP)
    yield from _argument_place(node, _ARGUMENT.get(function), place)
    for keyword in node.keywords:
        if keyword.arg == "resolved_codes":
            yield CodePlace(keyword.value, place._replace(emits=False))
        elif keyword.arg == "code" or keyword.arg in _BY_NAME:
            yield CodePlace(keyword.value, place)


def _foreign_call_places(node: ast.Call) -> Iterator[CodePlace]:
    for keyword in node.keywords:
        yield from _named_place(keyword.arg, keyword.value)
    # A helper of the same name is most likely a copy of ours or a wrapper.
    if _target_name(node.func) == "format_refusal":
        yield from _argument_place(node, 0, _NAMED)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
        for argument in node.args:
            yield from _named_place(_target_name(node.func.value), argument)


def _argument_place(node: ast.Call, index: int | None, place: PlaceKind) -> Iterator[CodePlace]:
    if index is None or len(node.args) <= index:
        return
    # After a starred argument the position is unknown.
    if not any(isinstance(argument, ast.Starred) for argument in node.args[: index + 1]):
        yield CodePlace(node.args[index], place)


def _default_places(node: ast.arguments) -> Iterator[CodePlace]:
    positional = [*node.posonlyargs, *node.args]
    given = positional[len(positional) - len(node.defaults) :]
    for parameter, default in zip(given, node.defaults, strict=True):
        yield from _named_place(parameter.arg, default)
    for parameter, keyword_default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        if keyword_default is not None:
            yield from _named_place(parameter.arg, keyword_default)


def _named_place(name: str | None, value: ast.expr) -> Iterator[CodePlace]:
    if name in _BY_NAME:
        yield CodePlace(value, _BY_NAME[name])


def _target_name(node: ast.expr) -> str | None:
    """Return the name of an assignment target or a called function."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key):
            return _constant_text(key)
        case _:
            return None


def _constant_text(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _path_tail(path: str | None) -> str:
    """Return the last part of a path, or the last two of a method that takes a code."""
    parts = [] if path is None else path.split(".")
    method = ".".join(parts[-2:])
    return method if method in _ARGUMENT else "".join(parts[-1:])


def _single_codes(node: ast.expr, imports: DemurImports) -> Iterator[ast.expr]:
    """Yield the single codes in a value: items of displays, branches of conditionals."""
    for part in _value_parts(node, imports):
        if part is node:
            yield node
        else:
            yield from _single_codes(part, imports)


def _value_parts(node: ast.expr, imports: DemurImports) -> list[ast.expr]:
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


def _passes_on(function: ast.expr, imports: DemurImports) -> bool:
    """Return whether a call returns the codes in its argument unchanged."""
    if isinstance(function, ast.Name) and function.id in _PASSES_ON:
        return True
    return _path_tail(imports.resolve_path(function)) == "ReasonCode"


def _is_display(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple | ast.Set)


def member_name(node: ast.AST, imports: DemurImports) -> str | None:
    """Return the member that `ReasonCode.MEMBER` names, or None if `node` is not that."""
    if not isinstance(node, ast.Attribute) or not node.attr.isupper():
        return None
    return node.attr if _path_tail(imports.resolve_path(node.value)) == "ReasonCode" else None


def literal_text(node: ast.expr) -> str | None:
    """Return the constant text of `node`, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            texts = [literal_text(part) for part in parts]
            return None if None in texts else "".join(filter(None, texts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = literal_text(left), literal_text(right)
            return None if first is None or second is None else first + second
        case _:
            return None


def built_constants(node: ast.expr) -> str | None:
    """Return the constant parts of a text that is built at run time, or None."""
    match node:
        case ast.JoinedStr(values=[_, _, *_] as parts):
            return " ".join(literal_text(part) or "" for part in parts)
        case ast.BinOp(left=left, op=ast.Mod()):
            return literal_text(left) or built_constants(left)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [literal_text(side) or built_constants(side) for side in (left, right)]
            return None if sides == [None, None] else " ".join(filter(None, sides))
        case ast.Call(func=ast.Attribute(value=template, attr="format" | "format_map" | "join")):
            return literal_text(template)
        case _:
            return None
