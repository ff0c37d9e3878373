"""Track where the values of one Python file come from, by name.

Deliberately light: it follows assignments, arguments, returns, loops and `with` within one file,
in any order. A value that passes through an unknown function keeps its origins.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Flag, auto
from typing import NamedTuple

from demur.guards.static.python_names import (
    CAPTURES,
    DECODERS,
    ENVIRONMENTS,
    HOST_FACTS,
    METADATA_PLACE,
    OPAQUE_BUILTINS,
    PASSWORD_PROMPTS,
    PROCESSES,
    READERS,
    SECRET_COMMAND,
    SECRET_NAME,
    SECRET_PLACE,
    TOKENS,
    WALKERS,
    WEB_REQUESTS,
    WHOLE_PLACE,
    PythonNames,
    is_network,
)
from demur.guards.static.source_text import split_names

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
                    yield from self._bindings(target, value, scope)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ):
                yield from self._bindings(target, value, scope)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                yield VariableBinding(VariableKey(scope, "return"), value)
            case ast.Call(func=ast.Attribute(attr=name, value=base), args=args) if name in _MIXERS:
                for value in args:
                    yield from self._bindings(base, value, scope)
            case ast.Call(func=ast.Attribute(attr="save" | "dump", value=base), args=[target, *_]):
                # A picture that is saved into a buffer.
                yield from self._bindings(target, base, scope)
            case _:
                pass

    def _bindings(self, target: ast.expr, value: ast.expr, scope: str) -> Iterator[VariableBinding]:
        match target:
            case ast.Name(id=name):
                yield VariableBinding(VariableKey(scope, name), value)
            case ast.Attribute(value=base, attr=name) if is_self(base):
                yield VariableBinding(VariableKey("", f".{name}"), value)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                yield from self._bindings(base, value, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, each in _pair_targets(parts, value):
                    yield from self._bindings(part, each, scope)
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


_MAX_ROUNDS = 6
_MAX_DEPTH = 80
_OPENERS = frozenset({"open", "read_bytes", "read_text"})
_WALK_METHODS = frozenset({"glob", "iterdir", "rglob"})
_HOMES = frozenset({"os.path.expanduser", "pathlib.Path.home", "Path.home"})
_NEUTRAL_CALLS = split_names(
    "hashlib. hmac. logging. os.path.exists os.path.isfile os.path.getsize"
)


class Origin(Flag):
    """The sources of a value."""

    PLAIN = 0
    REMOTE = auto()
    DECODED = auto()
    SECRET_PLACE = auto()
    SECRET = auto()
    ENVIRONMENT = auto()
    TOKEN = auto()
    HOST = auto()
    CAPTURE = auto()
    PERSONAL = auto()


class PythonDataFlow:
    """The origins of every expression in one file."""

    def __init__(self, tree: ast.Module, names: PythonNames) -> None:
        self._names = names
        self._origins: dict[VariableKey, Origin] = defaultdict(lambda: Origin.PLAIN)
        self._memo: dict[int, Origin] = {}
        binder = BindingCollector()
        bindings = list(binder.collect_bindings(tree))
        self._scopes, self._functions = binder.scopes, binder.functions
        bindings += self._argument_bindings(tree)
        self._propagate_origins(bindings)

    def origin_of(self, node: ast.expr | None, depth: int = 0) -> Origin:
        """Return the origin of `node`."""
        if node is None or depth > _MAX_DEPTH:
            return Origin.PLAIN
        if id(node) not in self._memo:
            self._memo[id(node)] = Origin.PLAIN
            self._memo[id(node)] = self._node_origin(node, depth + 1)
        return self._memo[id(node)]

    def _propagate_origins(self, bindings: list[VariableBinding]) -> None:
        for _ in range(_MAX_ROUNDS):
            before = dict(self._origins)
            for key, value in bindings:
                self._origins[key] |= self.origin_of(value)
            self._memo.clear()
            if before == self._origins:
                return

    def _argument_bindings(self, tree: ast.Module) -> Iterator[VariableBinding]:
        """Yield the arguments that calls pass to functions of the same file."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = _called_name(node.func)
            function = self._functions.get(called) if called else None
            if function is None:
                continue
            scope = self._scopes[id(function.args)]
            inside = function.args
            params = [arg.arg for arg in (*inside.posonlyargs, *inside.args)]
            if params[:1] in (["self"], ["cls"]):
                params = params[1:]
            for name, value in zip(params, node.args, strict=False):
                yield VariableBinding(VariableKey(scope, name), value)
            for keyword in node.keywords:
                if keyword.arg:
                    yield VariableBinding(VariableKey(scope, keyword.arg), keyword.value)

    def _node_origin(self, node: ast.expr, depth: int) -> Origin:
        match node:
            case ast.Constant(value=value):
                text = value if isinstance(value, str) and len(value) < 500 else ""
                return Origin.SECRET_PLACE if SECRET_PLACE.search(text) else Origin.PLAIN
            case ast.Name(id=name):
                own = self._variable_origin(name, self._scopes.get(id(node), ""))
                return own | self._environment_origin(node)
            case ast.Attribute(value=base, attr=name):
                own = self._variable_origin(f".{name}", "") if is_self(base) else Origin.PLAIN
                return own | self._environment_origin(node) | self.origin_of(base, depth)
            case ast.Call():
                return self._call_origin(node, depth)
            case ast.Subscript(value=base, slice=key):
                setting = self._names.dotted_path(base) in ENVIRONMENTS
                return self._setting_origin(key) if setting else self.origin_of(base, depth)
            case _:
                # A lambda has the origin of the value that it returns.
                compares = isinstance(node, ast.Compare)
                return Origin.PLAIN if compares else self._parts_origin(node, depth)

    def _parts_origin(self, node: ast.AST, depth: int) -> Origin:
        origin = Origin.PLAIN
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                origin |= self.origin_of(child, depth)
            elif isinstance(child, ast.comprehension):
                origin |= self.origin_of(child.iter, depth)
            elif isinstance(child, ast.keyword):
                origin |= self.origin_of(child.value, depth)
        return origin

    def _variable_origin(self, name: str, scope: str) -> Origin:
        origin = Origin.PLAIN
        while True:
            if (key := VariableKey(scope, name)) in self._origins:
                origin |= self._origins[key]
            if not scope:
                return origin
            scope = scope.rpartition("/")[0]

    def _environment_origin(self, node: ast.expr) -> Origin:
        path = self._names.dotted_path(node)
        asked = Origin.REMOTE if path in WEB_REQUESTS else Origin.PLAIN
        return Origin.ENVIRONMENT if path in ENVIRONMENTS else asked

    def _setting_origin(self, key: ast.expr | None) -> Origin:
        name = self._names.fold(key)
        secret = name is not None and SECRET_NAME.search(str(name.value))
        return Origin.TOKEN if secret else Origin.PLAIN

    def _call_origin(self, node: ast.Call, depth: int) -> Origin:
        path = self._names.dotted_path(node.func)
        source = self._source_origin(node, path)
        if source is not None:
            return source
        origin = self._parts_origin(node, depth)
        if self._walks_whole_place(node, path):
            return origin | Origin.PERSONAL
        if path in DECODERS or _assembles_text(node):
            return origin | Origin.DECODED
        if path in OPAQUE_BUILTINS or (path and path.startswith(_NEUTRAL_CALLS)):
            return Origin.PLAIN
        return self._call_result(node, path, origin, depth)

    def _source_origin(self, node: ast.Call, path: str | None) -> Origin | None:
        """Return the origin of a call that brings a value into the file, or None."""
        origin = None
        if path in TOKENS:
            origin = self._setting_origin(node.args[0] if node.args else None)
        elif path == "keyring.get_password" or self._asks_password(node, path):
            origin = Origin.TOKEN
        elif path in HOST_FACTS:
            origin = Origin.HOST
        elif path in CAPTURES:
            origin = Origin.CAPTURE
        elif is_network(path):
            place = METADATA_PLACE.search(self._names.folder.join_strings(node))
            origin = Origin.REMOTE | (Origin.SECRET if place else Origin.PLAIN)
        elif path in PROCESSES and SECRET_COMMAND.search(self._names.folder.join_strings(node)):
            origin = Origin.SECRET
        return origin

    def _asks_password(self, node: ast.Call, path: str | None) -> bool:
        shown = any(word.arg == "show" for word in node.keywords)
        return path in PASSWORD_PROMPTS or bool(path and path.endswith("askstring") and shown)

    def _walks_whole_place(self, node: ast.Call, path: str | None) -> bool:
        if path in WALKERS:
            return bool(node.args) and self.is_whole_place(node.args[0])
        match node.func:
            case ast.Attribute(attr=name, value=base) if name in _WALK_METHODS:
                return self.is_whole_place(base)
            case _:
                return False

    def is_whole_place(self, node: ast.expr) -> bool:
        """Return whether `node` names a whole home or file system."""
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        in_home = any(self._names.dotted_path(call.func) in _HOMES for call in calls)
        text = self._names.folder.join_strings(node)
        return bool(in_home or text) and WHOLE_PLACE.fullmatch(text) is not None

    def _call_result(self, node: ast.Call, path: str | None, origin: Origin, depth: int) -> Origin:
        opener = isinstance(node.func, ast.Attribute) and node.func.attr in _OPENERS
        if path in READERS or opener:
            text = self._names.folder.join_strings(node)
            secret = Origin.SECRET_PLACE in origin or SECRET_PLACE.search(text)
            reads = secret and not _opens_for_writing(node)
            return origin | (Origin.SECRET if reads else Origin.PLAIN)
        called = _called_name(node.func)
        function = self._functions.get(called) if called else None
        if function is not None:
            scope = self._scopes[id(function.args)]
            returned = self._variable_origin("return", scope)
            is_method = isinstance(node.func, ast.Attribute)
            return returned | self.origin_of(node.func if is_method else None, depth)
        return origin


def _called_name(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            return name
        case _:
            return None


def _opens_for_writing(call: ast.Call) -> bool:
    """Return whether a call opens a file for writing."""
    options = (*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode"))
    modes = (option.value for option in options if isinstance(option, ast.Constant))
    return any(isinstance(mode, str) and re.fullmatch("[wax]b?t?", mode) for mode in modes)


def _assembles_text(node: ast.Call) -> bool:
    """Return whether a call builds text from numbers, or deciphers it."""
    match node:
        case ast.Call(func=ast.Attribute(attr="join"), args=[parts]):
            return any(_is_chr(part) for part in ast.walk(parts))
        case ast.Call(func=ast.Name(id="bytes" | "bytearray"), args=[parts]):
            return any(isinstance(part, ast.BitXor) for part in ast.walk(parts))
        case ast.Call(func=ast.Attribute(attr="decrypt")):
            return True
        case _:
            return False


def _is_chr(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="chr")):
            return True
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="chr"), *_]):
            return True
        case _:
            return False
