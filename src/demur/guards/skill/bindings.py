"""Which values the variables of a Python file take, as they are written."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Binder", "Binding", "Function", "Key", "is_self"]

_MIXERS = frozenset({"add", "append", "extend", "insert", "setdefault", "update", "write"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Key(NamedTuple):
    """A variable: its function and its name."""

    scope: str
    name: str


class Binding(NamedTuple):
    """A variable, and a value that is assigned to it."""

    key: Key
    value: ast.expr


class Binder:
    """Walks a file once and collects the values of its variables and the scopes of its names."""

    def __init__(self) -> None:
        # Keyed by the id of a name or of a function's arguments.
        self.scopes: dict[int, str] = {}
        # None for a name that two functions share: the call is ambiguous.
        self.functions: dict[str, Function | None] = {}

    def bindings(self, tree: ast.Module) -> Iterator[Binding]:
        """Yield each variable with a value that is assigned to it."""
        stack: list[tuple[ast.AST, str]] = [(tree, "")]
        while stack:
            node, scope = stack.pop()
            inner = scope
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{scope}/{node.name}:{node.lineno}"
                self.scopes[id(node.args)] = inner
                self.functions[node.name] = None if node.name in self.functions else node
            elif isinstance(node, ast.Name):
                self.scopes[id(node)] = scope
            yield from self._bound(node, scope)
            stack.extend((child, inner) for child in ast.iter_child_nodes(node))

    def _bound(self, node: ast.AST, scope: str) -> Iterator[Binding]:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._target(target, value, scope)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ):
                yield from self._target(target, value, scope)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                yield Binding(Key(scope, "return"), value)
            case ast.Call(func=ast.Attribute(attr=name, value=base), args=args) if name in _MIXERS:
                for value in args:
                    yield from self._target(base, value, scope)
            case _:
                pass

    def _target(self, target: ast.expr, value: ast.expr, scope: str) -> Iterator[Binding]:
        match target:
            case ast.Name(id=name):
                yield Binding(Key(scope, name), value)
            case ast.Attribute(value=base, attr=name) if is_self(base):
                yield Binding(Key("", f".{name}"), value)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                yield from self._target(base, value, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, each in _pairs(parts, value):
                    yield from self._target(part, each, scope)
            case _:
                pass


def _pairs(parts: list[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts):
        yield from zip(parts, value.elts, strict=True)
    else:
        yield from ((part, value) for part in parts)


def is_self(node: ast.expr) -> bool:
    """Return whether `node` is `self` or `cls`."""
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}
