"""Which values the variables of a Python file take, as they are written."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["BindingCollector", "VariableBinding", "PythonFunction", "VariableKey", "is_self"]

_MIXERS = frozenset({"add", "append", "extend", "insert", "setdefault", "update", "write"})
PythonFunction = ast.FunctionDef | ast.AsyncFunctionDef


class VariableKey(NamedTuple):
    """A variable: its function and its name."""

    scope: str
    name: str


class VariableBinding(NamedTuple):
    """A variable, and a value that is assigned to it."""

    key: VariableKey
    value: ast.expr


class BindingCollector:
    """Walks a file once and collects the values of its variables and the scopes of its names."""

    def __init__(self) -> None:
        # Keyed by the id of a name or of a function's arguments.
        self.scopes: dict[int, str] = {}
        # None for a name that two functions share: the call is ambiguous.
        self.functions: dict[str, PythonFunction | None] = {}

    def collect_bindings(self, tree: ast.Module) -> Iterator[VariableBinding]:
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
            yield from self._node_bindings(node, scope)
            stack.extend((child, inner) for child in ast.iter_child_nodes(node))

    def _node_bindings(self, node: ast.AST, scope: str) -> Iterator[VariableBinding]:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._target_bindings(target, value, scope)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ):
                yield from self._target_bindings(target, value, scope)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                yield VariableBinding(VariableKey(scope, "return"), value)
            case ast.Call(func=ast.Attribute(attr=name, value=base), args=args) if name in _MIXERS:
                for value in args:
                    yield from self._target_bindings(base, value, scope)
            case _:
                pass

    def _target_bindings(
        self, target: ast.expr, value: ast.expr, scope: str
    ) -> Iterator[VariableBinding]:
        match target:
            case ast.Name(id=name):
                yield VariableBinding(VariableKey(scope, name), value)
            case ast.Attribute(value=base, attr=name) if is_self(base):
                yield VariableBinding(VariableKey("", f".{name}"), value)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                yield from self._target_bindings(base, value, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, each in _pair_targets(parts, value):
                    yield from self._target_bindings(part, each, scope)
            case _:
                pass


def _pair_targets(parts: list[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts):
        yield from zip(parts, value.elts, strict=True)
    else:
        yield from ((part, value) for part in parts)


def is_self(node: ast.expr) -> bool:
    """Return whether `node` is `self` or `cls`."""
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}
