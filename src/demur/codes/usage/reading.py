"""Which texts in a Python file are only read against, and never written out.

A test compares with a refusal line, a parser searches for its mark: neither
emits one. A name carries that on, if it is used for nothing else.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

__all__ = ["find_read_only"]

_READS = frozenset(
    {
        "compile",
        "count",
        "endswith",
        "find",
        "findall",
        "find_refusals",
        "finditer",
        "from_line",
        "fullmatch",
        "index",
        "match",
        "parse_refusal",
        "partition",
        "removeprefix",
        "rfind",
        "rpartition",
        "search",
        "split",
        "startswith",
    }
)


class _NameFlow(NamedTuple):
    """The names that each part of a value is bound to, and the uses of each name."""

    names: Mapping[int, set[str]]
    uses: Mapping[str, set[int]]


def find_read_only(nodes: Iterable[ast.AST]) -> frozenset[int]:
    """Return the ids of nodes that are only compared with, searched for or looked up."""
    every = tuple(nodes)
    direct = {
        id(part) for node in every for value in _read_values(node) for part in _spread_parts(value)
    }
    flow = _trace_names(every)
    quiet = _quiet_names(flow, direct)
    return frozenset(direct | {part for part, names in flow.names.items() if names <= quiet})


def _read_values(node: ast.AST) -> list[ast.expr]:
    values: list[ast.expr] = []
    match node:
        case ast.Compare(left=left, comparators=others):
            values = [left, *others]
        case ast.MatchValue(value=value) | ast.Subscript(slice=value):
            values = [value]
        case ast.FormattedValue(value=value, conversion=conversion) if conversion == ord("r"):
            # `{line!r}` mentions a refusal line and does not emit it.
            values = [value]
        case ast.Dict(keys=keys):
            values = [key for key in keys if key is not None]
        case ast.Call(func=function, args=args, keywords=keywords) if _is_reader(function):
            values = [*args, *(keyword.value for keyword in keywords)]
        case _:
            pass
    return values


def _is_reader(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _READS or name.startswith("assert")
        case _:
            return False


def _spread_parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the node and the parts used together with it: items of displays, sides of sums."""
    yield node
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _spread_parts(part)
        case ast.BinOp(left=left, right=right):
            yield from _spread_parts(left)
            yield from _spread_parts(right)
        case _:
            pass


def _trace_names(nodes: Iterable[ast.AST]) -> _NameFlow:
    names: defaultdict[int, set[str]] = defaultdict(set)
    uses: defaultdict[str, set[int]] = defaultdict(set)
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
                uses[name].add(id(node))
            case _:
                for name, value in _name_bindings(node):
                    for part in _spread_parts(value):
                        names[id(part)].add(name)
    return _NameFlow(names, uses)


def _name_bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            # A value in an attribute or item may be used anywhere, so it has no name.
            for target in targets:
                yield (target.id if isinstance(target, ast.Name) else "", value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield (name, value)
        case ast.For(target=ast.Name(id=name), iter=value):
            yield (name, value)
        case ast.comprehension(target=ast.Name(id=name), iter=value):
            yield (name, value)
        case _:
            pass


def _quiet_names(flow: _NameFlow, direct: set[int]) -> set[str]:
    """Return the names that are only read from, or only assigned to other such names."""
    quiet = {name for name, uses in flow.uses.items() if uses}
    while True:
        loud = {
            name
            for name in quiet
            if not all(
                use in direct or (use in flow.names and flow.names[use] <= quiet)
                for use in flow.uses[name]
            )
        }
        if not loud:
            return quiet
        quiet -= loud
