"""Where SDKs declare values that we know as refusals, and no mapping watches the place.

A new SDK often says an old thing in a new type. What is found here is for people to judge:
either a mapping's `sdk` should name the place, or it is of no concern.
"""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from sdk_values import MissingPlaceError, Sources

__all__ = ["unwatched"]

# Generated in bulk, or not part of what an SDK offers.
_PASSED_OVER = {"tests", "test", "_vendor", "proto", "bin", "examples"}


def unwatched(
    folder: Path, telling: Collection[str], watched: Collection[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each place that declares a telling value beside others, and all that it declares."""
    sources = Sources(folder)
    needles = [word.encode() for word in telling]
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if _PASSED_OVER.intersection(parts):
            continue
        raw = path.read_bytes()
        if not any(needle in raw for needle in needles):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        for name in _places(raw):
            at = f"{module}:{name}"
            values = _values(sources, at)
            if at not in watched and len(values) > 1 and not values.isdisjoint(telling):
                yield at, tuple(sorted(values))


def _values(sources: Sources, at: str) -> frozenset[str]:
    try:
        return sources.values(at)
    except MissingPlaceError:
        return frozenset()


def _places(raw: bytes) -> Iterator[str]:
    """Yield the aliases, enums and literal fields that a module defines itself."""
    for statement in ast.parse(raw).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_literal(statement.value):
            target = (
                statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            )
            if isinstance(target, ast.Name):
                yield target.id
        elif isinstance(statement, ast.ClassDef):
            yield from _in_class(statement)


def _in_class(model: ast.ClassDef) -> Iterator[str]:
    fields = [one for one in model.body if isinstance(one, ast.AnnAssign)]
    if not fields:
        yield model.name
    for field in fields:
        if isinstance(field.target, ast.Name) and _is_literal(field.annotation):
            yield f"{model.name}.{field.target.id}"


def _is_literal(node: ast.expr | None) -> bool:
    return node is not None and any(
        isinstance(part, ast.Name | ast.Attribute)
        and (part.attr if isinstance(part, ast.Attribute) else part.id) == "Literal"
        for part in ast.walk(node)
    )
