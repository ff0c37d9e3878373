"""Evaluate Python expressions as far as possible without running them.

Assembled, decoded and looked-up strings are computed (`'r' + 'm'`, `chr(114)`, `b64decode(...)`,
`getattr(os, 'sys' + 'tem')`). Data from files or the network keeps its origin.
"""

import ast
from collections.abc import Callable, Iterable

from demur.guards.code_execution.files import read_rule
from demur.guards.code_execution.names import names
from demur.guards.code_execution.outputs import decoded, unbase64, unhex
from demur.guards.code_execution.places import HOME, canonical
from demur.guards.code_execution.value import LONGEST, UNKNOWN, Taint, Value, joined

__all__ = ["Names"]

_DEEPEST = 40
_ENVIRONMENT = Value("", known=False, taints=frozenset({Taint.ENVIRONMENT}))
_DOWNLOAD = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
_FETCHERS = frozenset(
    names(
        "requests.get requests.post requests.put requests.request requests.Session requests.session"
        " httpx.get httpx.post httpx.put httpx.request httpx.Client aiohttp.request"
        " aiohttp.ClientSession urllib.request.urlopen urllib.request.Request urllib2.urlopen"
        " urllib.request.urlretrieve http.client.HTTPSConnection wget.download"
    )
)
_DECODERS: dict[str, Callable[[str], str | None] | None] = {
    "base64.b64decode": unbase64,
    "base64.standard_b64decode": unbase64,
    "base64.urlsafe_b64decode": unbase64,
    "base64.decodebytes": unbase64,
    "base64.b32decode": None,
    "base64.b85decode": None,
    "base64.a85decode": None,
    "base64.b16decode": unhex,
    "bytes.fromhex": unhex,
    "bytearray.fromhex": unhex,
    "binascii.unhexlify": unhex,
    "binascii.a2b_base64": unbase64,
    "binascii.a2b_hex": unhex,
    **dict.fromkeys(
        names(
            "zlib.decompress gzip.decompress bz2.decompress lzma.decompress marshal.loads"
            " codecs.decode codecs.encode zlib.decompressobj"
        )
    ),
}
_PATHS = frozenset(names("pathlib.Path pathlib.PurePath pathlib.PosixPath Path"))
_KEPT = frozenset(
    names("str bytes bytearray compile os.fsencode os.path.expandvars repr io.BytesIO")
)


class Names:
    """The modules and values that names stand for."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.modules: dict[str, str] = {}
        self.values: dict[str, Value] = {}

    def dotted(self, node: ast.expr, depth: int = 0) -> str:
        """Return the full name of a function or attribute: `sp.run` is `subprocess.run`."""
        if depth > _DEEPEST:
            return ""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.dotted(node.value, depth + 1)}.{node.attr}"
        if isinstance(node, ast.Call):
            return self._made(node, depth)
        return ""

    def _made(self, node: ast.Call, depth: int) -> str:
        """Return the name of a call's result: a module, an attribute, or `name()`."""
        name = self.dotted(node.func, depth + 1)
        if name in {"__import__", "importlib.import_module"} and node.args:
            return self.value(node.args[0], depth + 1).text or "()"
        if name == "getattr" and len(node.args) > 1:
            member = self.value(node.args[1], depth + 1).text
            return f"{self.dotted(node.args[0], depth + 1)}.{member}"
        return f"{name}()"

    def value(self, node: ast.expr, depth: int = 0) -> Value:
        """Return the value of `node`."""
        if depth > _DEEPEST:
            return UNKNOWN
        reader = _READERS.get(type(node))
        return reader(self, node, depth + 1) if reader else UNKNOWN


def _constant(_: Names, node: ast.Constant, __: int) -> Value:
    if isinstance(node.value, bytes):
        return Value(node.value.decode("latin-1"))
    return Value(str(node.value))


def _name(known: Names, node: ast.Name, _: int) -> Value:
    return known.values.get(node.id, UNKNOWN)


def _joined(known: Names, node: ast.JoinedStr, depth: int) -> Value:
    return joined([known.value(part, depth) for part in node.values] or [Value("")])


def _formatted(known: Names, node: ast.FormattedValue, depth: int) -> Value:
    return known.value(node.value, depth)


def _operation(known: Names, node: ast.BinOp, depth: int) -> Value:
    left, right = known.value(node.left, depth), known.value(node.right, depth)
    if isinstance(node.op, ast.Add):
        return joined([left, right])
    if isinstance(node.op, ast.Div):
        return joined([left, right], "/")
    if isinstance(node.op, ast.Mult) and right.text.isdigit():
        return left._replace(text=(left.text * min(int(right.text[:4]), 1000))[:LONGEST])
    if isinstance(node.op, ast.Mod):
        filled = left.text.replace("%s", right.text)[:LONGEST]
        return joined([left, right])._replace(text=filled)
    return _mixed([left, right])


def _subscript(known: Names, node: ast.Subscript, depth: int) -> Value:
    if known.dotted(node.value) == "os.environ":
        return _variable(known.value(node.slice, depth))
    inner = known.value(node.value, depth)
    cut = node.slice
    if isinstance(cut, ast.Slice) and cut.step and not cut.lower and not cut.upper:
        return inner._replace(text=inner.text[::-1])
    return inner._replace(known=False)


def _attribute(known: Names, node: ast.Attribute, depth: int) -> Value:
    if known.dotted(node) == "os.environ":
        return _ENVIRONMENT
    return known.value(node.value, depth)._replace(text="", known=False)


def _sequence(known: Names, node: ast.List | ast.Tuple, depth: int) -> Value:
    return _mixed([known.value(item, depth) for item in node.elts])


def _mapping(known: Names, node: ast.Dict, depth: int) -> Value:
    return _mixed([known.value(item, depth) for item in node.values])


def _choice(known: Names, node: ast.IfExp, depth: int) -> Value:
    return known.value(node.body, depth)


def _call(known: Names, node: ast.Call, depth: int) -> Value:
    name = known.dotted(node.func)
    args = [known.value(arg, depth) for arg in node.args]
    first = args[0] if args else UNKNOWN
    if name in _DECODERS:
        return decoded(first, _DECODERS[name])
    if name in _FETCHERS:
        return _DOWNLOAD
    if name in {"open", "io.open", "codecs.open"}:
        return _file(known, first)
    if name in _PATHS or name in {"os.path.join", "os.path.expanduser", "os.path.abspath"}:
        return _path(joined(args, "/") if args else Value("."))
    if name in {"os.getenv", "os.environ.get"}:
        return _variable(first)
    return first if name in _KEPT else _method(known, node, name, args, depth)


def _variable(name: Value) -> Value:
    """Return the value of an environment variable."""
    return Value(HOME) if name.text == "HOME" else _ENVIRONMENT


def _method(known: Names, node: ast.Call, name: str, args: list[Value], depth: int) -> Value:
    """Return the result of a method; an unknown method keeps the origins alone."""
    if name == "chr" and args and args[0].text.isdigit():
        point = int(args[0].text[:7])
        return Value(chr(point)) if 0 < point < 0x110000 else UNKNOWN
    if not isinstance(node.func, ast.Attribute):
        return _mixed(args)
    owner = known.value(node.func.value, depth)
    method = _METHODS.get(node.func.attr)
    if method is not None:
        return method(owner, args)
    items = node.args[0] if node.args else None
    if node.func.attr == "join" and isinstance(items, ast.List | ast.Tuple):
        parts = [known.value(item, depth) for item in items.elts]
        return joined(parts or [Value("")], owner.text)
    reads = node.func.attr in {"read_text", "read_bytes"}
    return _file(known, owner) if reads else _mixed([owner, *args])


def _file(known: Names, path: Value) -> Value:
    """Return the unknown content of a file, marked secret if its name says so."""
    secret = bool(path.text) and bool(read_rule(canonical(path.text, known.cwd)))
    taint = Taint.SECRET if secret else Taint.INPUT
    return Value("", known=False, taints=path.taints | {taint})


def _mixed(values: Iterable[Value]) -> Value:
    """Return an unknown value with all the origins of `values`."""
    return Value("", known=False, taints=frozenset().union(*(value.taints for value in values)))


def _path(value: Value) -> Value:
    return value._replace(text=HOME + value.text[1:]) if value.text.startswith("~") else value


def _replaced(owner: Value, args: list[Value]) -> Value:
    if len(args) < 2 or not args[0].text:
        return owner
    return owner._replace(text=owner.text.replace(args[0].text, args[1].text)[:LONGEST])


def _same(owner: Value, _: list[Value]) -> Value:
    return owner


_METHODS: dict[str, Callable[[Value, list[Value]], Value]] = {
    **dict.fromkeys(
        ("decode", "encode", "strip", "rstrip", "lstrip", "format", "expanduser"), _same
    ),
    "resolve": _same,
    "as_posix": _same,
    "lower": lambda owner, _: owner._replace(text=owner.text.lower()),
    "upper": lambda owner, _: owner._replace(text=owner.text.upper()),
    "replace": _replaced,
    "home": lambda _, __: Value(HOME),
    "joinpath": lambda owner, args: joined([owner, *args], "/"),
}
_READERS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
    ast.BinOp: _operation,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Dict: _mapping,
    ast.IfExp: _choice,
    ast.Call: _call,
}
