"""The values that an SDK declares for a field, read from its sources without running them.

A place is `module:Name` for an alias, an enum or a model whose fields are the values,
`module:Model.field` for a typed field (or one further in: `Model.field.field`), and
`service/Shape` for a shape of botocore.
"""

import ast
import gzip
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

__all__ = ["MissingPlaceError", "Sources"]

# Behind these the first argument is the type, and what follows only describes it.
_DESCRIBED = {"Annotated", "ClassVar", "Final", "NotRequired", "Required"}
_DEEPEST = 30


class MissingPlaceError(LookupError):
    """A place that the installed SDK does not have, or not in a form that can be read."""


class Sources:
    """Packages installed in a folder; nothing in it is imported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[str, _Module] = {}

    def values(self, place: str) -> frozenset[str]:
        """Return the values that are declared at `place`.

        Raises:
            MissingPlaceError: There is no such place, or no value in it.
        """
        found = self._shape(place) if ":" not in place else frozenset(self._declared(place))
        if not found:
            raise MissingPlaceError(f"`{place}` declares no values")
        return found

    def _declared(self, place: str) -> Iterator[str]:
        name, _, path = place.partition(":")
        module = self.module(name)
        if module is None:
            raise MissingPlaceError(f"there is no module `{name}`")
        owner, *fields = path.split(".")
        defined = self._resolve(module, owner)
        if defined is None:
            raise MissingPlaceError(f"`{name}` has no `{owner}`")
        reached = [defined]
        for field in fields:
            models = [model for one in reached for model in self._models(one, 0)]
            reached = [kind for model in models for kind in self._kinds(model, field)]
        for one in reached:
            yield from self._of(one, 0)

    def _shape(self, place: str) -> frozenset[str]:
        """Return the values of an enum in botocore's newest description of a service."""
        service, _, name = place.partition("/")
        files = sorted((self._folder / "botocore/data" / service).glob("*/service-2.json*"))
        if not files:
            raise MissingPlaceError(f"botocore has no service `{service}`")
        raw = files[-1].read_bytes()
        shapes = json.loads(gzip.decompress(raw) if files[-1].suffix == ".gz" else raw)["shapes"]
        if name not in shapes:
            raise MissingPlaceError(f"`{service}` has no shape `{name}`")
        shape = shapes[name]
        # A union or a structure of flags says it by which member is there.
        return frozenset(shape.get("enum") or shape.get("members") or ())

    def module(self, name: str) -> "_Module | None":
        """Return the module, from its source or, where that is made at run time, from its stub."""
        if name not in self._modules:
            files = self._files(name)
            if not files:
                return None
            self._modules[name] = _Module(name, files)
        return self._modules[name]

    def _files(self, name: str) -> list[Path]:
        place = self._folder.joinpath(*name.split("."))
        stems = (place / "__init__", place)
        tried = (stem.with_name(stem.name + end) for stem in stems for end in (".pyi", ".py"))
        return [path for path in tried if path.is_file()]

    def _resolve(self, module: "_Module", name: str, depth: int = 0) -> "_Defined | None":
        """Return where a name is defined, through imports; names of no SDK are None."""
        if depth > _DEEPEST:
            return None
        if (node := module.definitions.get(name)) is not None:
            return _Defined(module, node)
        wildcards = ((target, name) for target in module.wildcards)
        imported = [module.imports[name]] if name in module.imports else wildcards
        for target, original in imported:
            other = self.module(target)
            found = None if other is None else self._resolve(other, original, depth + 1)
            if found is not None:
                return found
        return None

    def _named(self, module: "_Module", node: ast.expr) -> "_Defined | None":
        """Return what a name or `module.name` in an expression refers to."""
        if isinstance(node, ast.Name):
            return self._resolve(module, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            target, name = module.imports.get(node.value.id, ("", ""))
            other = self.module(f"{target}.{name}" if name else target)
            return None if other is None else self._resolve(other, node.attr)
        return None

    def _models(self, defined: "_Defined", depth: int) -> Iterator["_Defined"]:
        """Yield the classes that an alias stands for, or the class itself."""
        if isinstance(defined.node, ast.ClassDef):
            yield defined
            return
        for part in _parts(defined.node):
            named = self._named(defined.module, part)
            if named is not None and depth < _DEEPEST:
                yield from self._models(named, depth + 1)

    def _kinds(self, model: "_Defined", field: str, depth: int = 0) -> Iterator["_Defined"]:
        """Yield the type of a field, its own or inherited."""
        assert isinstance(model.node, ast.ClassDef)
        for statement in model.node.body:
            if isinstance(statement, ast.AnnAssign) and _target(statement) == field:
                yield _Defined(model.module, statement.annotation)
                return
        for base in model.node.bases:
            named = self._named(model.module, base)
            if named is not None and isinstance(named.node, ast.ClassDef) and depth < _DEEPEST:
                yield from self._kinds(named, field, depth + 1)

    def _of(self, defined: "_Defined", depth: int) -> Iterator[str]:
        """Yield the values of a class or of a type expression."""
        if isinstance(defined.node, ast.ClassDef):
            yield from _members(defined.node)
            return
        for part in _parts(defined.node):
            if isinstance(part, ast.Constant):
                yield str(part.value)
                continue
            named = self._named(defined.module, part)
            if named is not None and depth < _DEEPEST:
                yield from self._of(named, depth + 1)


class _Module:
    """One module: what it defines, and where the names come from that it does not."""

    def __init__(self, name: str, files: Iterable[Path]) -> None:
        self._name = name
        self._files = tuple(files)

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        trees = (ast.parse(path.read_bytes()) for path in self._files)
        return [statement for tree in trees for statement in _flat(tree.body)]

    @cached_property
    def definitions(self) -> dict[str, ast.ClassDef | ast.expr]:
        """Classes and aliases by name; a stub comes before the source it describes."""
        found: dict[str, ast.ClassDef | ast.expr] = {}
        for statement in self._statements:
            if isinstance(statement, ast.ClassDef):
                found.setdefault(statement.name, statement)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                found.setdefault(_target(statement), statement.value)
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """What each imported name is: a module and a name in it, or a module alone."""
        found: dict[str, tuple[str, str]] = {}
        for statement in self._statements:
            if isinstance(statement, ast.ImportFrom):
                target = self._absolute(statement)
                found |= {one.asname or one.name: (target, one.name) for one in statement.names}
            elif isinstance(statement, ast.Import):
                found |= {one.asname or one.name: (one.name, "") for one in statement.names}
        return found

    @cached_property
    def wildcards(self) -> list[str]:
        """The modules of which everything is imported."""
        return [
            self._absolute(statement)
            for statement in self._statements
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
        ]

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        package = self._files[0].stem == "__init__"
        parts = self._name.split(".")
        kept = parts[: len(parts) - statement.level + package]
        return ".".join([*kept, *([statement.module] if statement.module else [])])


class _Defined(NamedTuple):
    """A class or a type expression, and the module whose names it uses."""

    module: _Module
    node: ast.ClassDef | ast.expr


def _flat(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements with those under `if` and `try`: types are often imported there."""
    for statement in statements:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _flat(statement.body)
            yield from _flat(statement.orelse)
            for handler in getattr(statement, "handlers", ()):
                yield from _flat(handler.body)


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _members(model: ast.ClassDef) -> Iterator[str]:
    """Yield the values of an enum, or the names by which a model's fields are written."""
    fields = [one for one in model.body if isinstance(one, ast.AnnAssign)]
    if fields:
        yield from (_alias(field.value) or _target(field) for field in fields)
        return
    for statement in model.body:
        if isinstance(statement, ast.Assign) and not _target(statement).startswith("_"):
            yield from _member(_target(statement), statement.value)


def _member(name: str, value: ast.expr) -> Iterator[str]:
    """Yield the value of an enum's member; one that is a number is written by its name."""
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    if name and isinstance(first, ast.Constant):
        yield first.value if isinstance(first.value, str) else name


def _alias(value: ast.expr | None) -> str | None:
    for keyword in value.keywords if isinstance(value, ast.Call) else ():
        if keyword.arg == "alias" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return None


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the constants and names that a type expression consists of."""
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _parts(left)
            yield from _parts(right)
        case ast.Subscript(value=head, slice=inner):
            yield from _arguments(_last_name(head), inner)
        case ast.Name() | ast.Attribute():
            yield node
        case ast.Constant(value=str(text)):
            # An annotation in quotes.
            yield from _parts(ast.parse(text, mode="eval").body)


def _arguments(head: str, inner: ast.expr) -> Iterator[ast.expr]:
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if head == "Literal":
        for item in items:
            if isinstance(item, ast.Constant) and item.value is not None:
                yield item
            elif not isinstance(item, ast.Constant):
                yield from _parts(item)
        return
    for item in items[:1] if head in _DESCRIBED else items:
        yield from _parts(item)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
