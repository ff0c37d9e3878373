"""Where the values of one Python file come from, followed by name.

Light on purpose: assignments, arguments, returns, loops and `with` within one file, in any
order. A value that passes through an unknown function keeps its origins.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Flag, auto

from demur.guards.skill.bindings import Binder, Binding, Key, is_self
from demur.guards.skill.calls import (
    CARRIERS,
    DECODERS,
    ENVIRONMENTS,
    READERS,
    SECRET_NAME,
    SECRET_PLACE,
    TOKENS,
    is_network,
)
from demur.guards.skill.names import Names

__all__ = ["Flow", "Origin"]

_ROUNDS = 6
_DEEPEST = 80
_OPENERS = frozenset({"open", "read_bytes", "read_text"})
_DULL = ("hashlib.", "hmac.", "logging.", "os.path.exists", "os.path.isfile", "os.path.getsize")


class Origin(Flag):
    """The sources of a value."""

    PLAIN = 0
    REMOTE = auto()
    DECODED = auto()
    SECRET_PLACE = auto()
    SECRET = auto()
    ENVIRONMENT = auto()
    TOKEN = auto()


class Flow:
    """The origins of every expression in one file."""

    def __init__(self, tree: ast.Module, names: Names) -> None:
        self._names = names
        self._origins: dict[Key, Origin] = defaultdict(lambda: Origin.PLAIN)
        self._memo: dict[int, Origin] = {}
        binder = Binder()
        bindings = list(binder.bindings(tree))
        self._scopes, self._functions = binder.scopes, binder.functions
        bindings += self._arguments(tree)
        self._settle(bindings)

    def of(self, node: ast.expr | None, depth: int = 0) -> Origin:
        """Return the origin of `node`."""
        if node is None or depth > _DEEPEST:
            return Origin.PLAIN
        if id(node) not in self._memo:
            self._memo[id(node)] = Origin.PLAIN
            self._memo[id(node)] = self._of(node, depth + 1)
        return self._memo[id(node)]

    def _settle(self, bindings: list[Binding]) -> None:
        for _ in range(_ROUNDS):
            before = dict(self._origins)
            for key, value in bindings:
                self._origins[key] |= self.of(value)
            self._memo.clear()
            if before == self._origins:
                return

    def _arguments(self, tree: ast.Module) -> Iterator[Binding]:
        """Yield the arguments that calls pass to functions of the same file."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = _called(node.func)
            function = self._functions.get(called) if called else None
            if function is None:
                continue
            scope = self._scopes[id(function.args)]
            inside = function.args
            params = [arg.arg for arg in (*inside.posonlyargs, *inside.args)]
            if params[:1] in (["self"], ["cls"]):
                params = params[1:]
            for name, value in zip(params, node.args, strict=False):
                yield Binding(Key(scope, name), value)
            for keyword in node.keywords:
                if keyword.arg:
                    yield Binding(Key(scope, keyword.arg), keyword.value)

    def _of(self, node: ast.expr, depth: int) -> Origin:
        match node:
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Name(id=name):
                return self._variable(name, self._scopes.get(id(node), "")) | self._known(node)
            case ast.Attribute(value=base, attr=name):
                own = self._variable(f".{name}", "") if is_self(base) else Origin.PLAIN
                return own | self._known(node) | self.of(base, depth)
            case ast.Call():
                return self._call(node, depth)
            case ast.Subscript(value=base, slice=key):
                return self._item(base, key, depth)
            case _:
                # A lambda has the origin of the value that it returns.
                return Origin.PLAIN if isinstance(node, ast.Compare) else self._parts(node, depth)

    def _parts(self, node: ast.AST, depth: int) -> Origin:
        origin = Origin.PLAIN
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                origin |= self.of(child, depth)
            elif isinstance(child, ast.comprehension):
                origin |= self.of(child.iter, depth)
            elif isinstance(child, ast.keyword):
                origin |= self.of(child.value, depth)
        return origin

    def _constant(self, value: object) -> Origin:
        if isinstance(value, str) and len(value) < 500 and SECRET_PLACE.search(value):
            return Origin.SECRET_PLACE
        return Origin.PLAIN

    def _variable(self, name: str, scope: str) -> Origin:
        origin = Origin.PLAIN
        while True:
            if (key := Key(scope, name)) in self._origins:
                origin |= self._origins[key]
            if not scope:
                return origin
            scope = scope.rpartition("/")[0]

    def _known(self, node: ast.expr) -> Origin:
        known = self._names.path(node) in ENVIRONMENTS
        return Origin.ENVIRONMENT if known else Origin.PLAIN

    def _item(self, base: ast.expr, key: ast.expr, depth: int) -> Origin:
        if self._names.path(base) in ENVIRONMENTS:
            return self._setting(key)
        return self.of(base, depth)

    def _setting(self, key: ast.expr | None) -> Origin:
        name = self._names.fold(key)
        secret = name is not None and SECRET_NAME.search(str(name.value))
        return Origin.TOKEN if secret else Origin.PLAIN

    def _call(self, node: ast.Call, depth: int) -> Origin:
        path = self._names.path(node.func)
        first = node.args[0] if node.args else None
        if path in TOKENS:
            return self._setting(first)
        if path == "keyring.get_password":
            return Origin.TOKEN
        if is_network(path):
            return Origin.REMOTE
        given = self._parts(node, depth)
        if path in DECODERS or _assembles(node):
            return given | Origin.DECODED
        if path in CARRIERS or (path and path.startswith(_DULL)):
            return Origin.PLAIN
        return self._through(node, path, given, depth)

    def _through(self, node: ast.Call, path: str | None, given: Origin, depth: int) -> Origin:
        opener = isinstance(node.func, ast.Attribute) and node.func.attr in _OPENERS
        if path in READERS or opener:
            secret = self._is_secret(node, given) and not _writes(node)
            return given | (Origin.SECRET if secret else Origin.PLAIN)
        called = _called(node.func)
        function = self._functions.get(called) if called else None
        if function is not None:
            scope = self._scopes[id(function.args)]
            base = self.of(node.func, depth) if isinstance(node.func, ast.Attribute) else None
            return self._variable("return", scope) | (base or Origin.PLAIN)
        return given

    def _is_secret(self, node: ast.Call, given: Origin) -> bool:
        if Origin.SECRET_PLACE in given:
            return True
        return bool(SECRET_PLACE.search(self._names.folder.strings(node)))


def _called(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            return name
        case _:
            return None


def _writes(call: ast.Call) -> bool:
    """Return whether a call opens a file for writing."""
    given = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [part.value for part in given if isinstance(part, ast.Constant)]
    return any(isinstance(mode, str) and re.fullmatch("[wax]b?t?", mode) for mode in modes)


def _assembles(node: ast.Call) -> bool:
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
