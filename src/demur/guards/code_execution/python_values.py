"""Evaluate Python expressions as far as possible without running them.

Assembled, decoded and looked-up strings are computed (`'r' + 'm'`, `chr(114)`, `b64decode(...)`,
`getattr(os, 'sys' + 'tem')`). Data from files or the network keeps its origin.
"""

import ast
from collections.abc import Callable, Iterable

from demur.guards.code_execution.call import (
    MAX_VALUE_LENGTH,
    UNKNOWN,
    Taint,
    Value,
    join_values,
    split_names,
)
from demur.guards.code_execution.outputs import decode_base64, decode_hex, decode_value
from demur.guards.code_execution.paths import HOME, canonical_path, read_rule

__all__ = ["PythonValues"]

_MAX_DEPTH = 40
_ENVIRONMENT = Value("", known=False, taints=frozenset({Taint.ENVIRONMENT}))
_DOWNLOAD = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
_FETCHERS = frozenset(
    split_names(
        "requests.get requests.post requests.put requests.request requests.Session requests.session"
        " httpx.get httpx.post httpx.put httpx.request httpx.Client aiohttp.request"
        " aiohttp.ClientSession urllib.request.urlopen urllib.request.Request urllib2.urlopen"
        " urllib.request.urlretrieve http.client.HTTPSConnection wget.download"
    )
)
_DECODERS: dict[str, Callable[[str], str | None] | None] = {
    "base64.b64decode": decode_base64,
    "base64.standard_b64decode": decode_base64,
    "base64.urlsafe_b64decode": decode_base64,
    "base64.decodebytes": decode_base64,
    "base64.b32decode": None,
    "base64.b85decode": None,
    "base64.a85decode": None,
    "base64.b16decode": decode_hex,
    "bytes.fromhex": decode_hex,
    "bytearray.fromhex": decode_hex,
    "binascii.unhexlify": decode_hex,
    "binascii.a2b_base64": decode_base64,
    "binascii.a2b_hex": decode_hex,
    **dict.fromkeys(
        split_names(
            "zlib.decompress gzip.decompress bz2.decompress lzma.decompress marshal.loads"
            " codecs.decode codecs.encode zlib.decompressobj"
        )
    ),
}
_PATHS = frozenset(split_names("pathlib.Path pathlib.PurePath pathlib.PosixPath Path"))
_KEPT = frozenset(
    split_names("str bytes bytearray compile os.fsencode os.path.expandvars repr io.BytesIO")
)


class PythonValues:
    """The modules and values that names stand for."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.modules: dict[str, str] = {}
        self.values: dict[str, Value] = {}

    def dotted_name(self, node: ast.expr, depth: int = 0) -> str:
        """Return the full name of a function or attribute: `sp.run` is `subprocess.run`."""
        if depth > _MAX_DEPTH:
            return ""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.dotted_name(node.value, depth + 1)}.{node.attr}"
        if isinstance(node, ast.Call):
            return self._call_name(node, depth)
        return ""

    def _call_name(self, node: ast.Call, depth: int) -> str:
        """Return the name of a call's result: a module, an attribute, or `name()`."""
        name = self.dotted_name(node.func, depth + 1)
        if name in {"__import__", "importlib.import_module"} and node.args:
            return self.evaluate_node(node.args[0], depth + 1).text or "()"
        if name == "getattr" and len(node.args) > 1:
            member = self.evaluate_node(node.args[1], depth + 1).text
            return f"{self.dotted_name(node.args[0], depth + 1)}.{member}"
        return f"{name}()"

    def evaluate_node(self, node: ast.expr, depth: int = 0) -> Value:
        """Return the value of `node`."""
        if depth > _MAX_DEPTH:
            return UNKNOWN
        reader = _READERS.get(type(node))
        return reader(self, node, depth + 1) if reader else UNKNOWN


def _constant_value(_: PythonValues, node: ast.Constant, __: int) -> Value:
    if isinstance(node.value, bytes):
        return Value(node.value.decode("latin-1"))
    return Value(str(node.value))


def _name_value(env: PythonValues, node: ast.Name, _: int) -> Value:
    return env.values.get(node.id, UNKNOWN)


def _fstring_value(env: PythonValues, node: ast.JoinedStr, depth: int) -> Value:
    return join_values([env.evaluate_node(part, depth) for part in node.values] or [Value("")])


def _formatted_value(env: PythonValues, node: ast.FormattedValue, depth: int) -> Value:
    return env.evaluate_node(node.value, depth)


def _operation_value(env: PythonValues, node: ast.BinOp, depth: int) -> Value:
    left, right = env.evaluate_node(node.left, depth), env.evaluate_node(node.right, depth)
    if isinstance(node.op, ast.Add):
        return join_values([left, right])
    if isinstance(node.op, ast.Div):
        return join_values([left, right], "/")
    if isinstance(node.op, ast.Mult) and right.text.isdigit():
        return left._replace(text=(left.text * min(int(right.text[:4]), 1000))[:MAX_VALUE_LENGTH])
    if isinstance(node.op, ast.Mod):
        filled = left.text.replace("%s", right.text)[:MAX_VALUE_LENGTH]
        return join_values([left, right])._replace(text=filled)
    return _mix_origins([left, right])


def _subscript_value(env: PythonValues, node: ast.Subscript, depth: int) -> Value:
    if env.dotted_name(node.value) == "os.environ":
        return _environment_value(env.evaluate_node(node.slice, depth))
    inner = env.evaluate_node(node.value, depth)
    cut = node.slice
    if isinstance(cut, ast.Slice) and cut.step and not cut.lower and not cut.upper:
        return inner._replace(text=inner.text[::-1])
    return inner._replace(known=False)


def _attribute_value(env: PythonValues, node: ast.Attribute, depth: int) -> Value:
    if env.dotted_name(node) == "os.environ":
        return _ENVIRONMENT
    return env.evaluate_node(node.value, depth)._replace(text="", known=False)


def _sequence_value(env: PythonValues, node: ast.List | ast.Tuple, depth: int) -> Value:
    return _mix_origins([env.evaluate_node(item, depth) for item in node.elts])


def _mapping_value(env: PythonValues, node: ast.Dict, depth: int) -> Value:
    return _mix_origins([env.evaluate_node(item, depth) for item in node.values])


def _choice_value(env: PythonValues, node: ast.IfExp, depth: int) -> Value:
    return env.evaluate_node(node.body, depth)


def _call_value(env: PythonValues, node: ast.Call, depth: int) -> Value:
    name = env.dotted_name(node.func)
    args = [env.evaluate_node(arg, depth) for arg in node.args]
    first = args[0] if args else UNKNOWN
    if name in _DECODERS:
        return decode_value(first, _DECODERS[name])
    if name in _FETCHERS:
        return _DOWNLOAD
    if name in {"open", "io.open", "codecs.open"}:
        return _file_value(env, first)
    if name in _PATHS or name in {"os.path.join", "os.path.expanduser", "os.path.abspath"}:
        return _expand_home(join_values(args, "/") if args else Value("."))
    if name in {"os.getenv", "os.environ.get"}:
        return _environment_value(first)
    return first if name in _KEPT else _method_value(env, node, name, args, depth)


def _environment_value(name: Value) -> Value:
    """Return the value of an environment variable."""
    return Value(HOME) if name.text == "HOME" else _ENVIRONMENT


def _method_value(
    env: PythonValues, node: ast.Call, name: str, args: list[Value], depth: int
) -> Value:
    """Return the result of a method; an unknown method keeps the origins alone."""
    if name == "chr" and args and args[0].text.isdigit():
        point = int(args[0].text[:7])
        return Value(chr(point)) if 0 < point < 0x110000 else UNKNOWN
    if not isinstance(node.func, ast.Attribute):
        return _mix_origins(args)
    owner = env.evaluate_node(node.func.value, depth)
    method = _METHODS.get(node.func.attr)
    if method is not None:
        return method(owner, args)
    items = node.args[0] if node.args else None
    if node.func.attr == "join" and isinstance(items, ast.List | ast.Tuple):
        parts = [env.evaluate_node(item, depth) for item in items.elts]
        return join_values(parts or [Value("")], owner.text)
    reads = node.func.attr in {"read_text", "read_bytes"}
    return _file_value(env, owner) if reads else _mix_origins([owner, *args])


def _file_value(env: PythonValues, path: Value) -> Value:
    """Return the unknown content of a file, marked secret if its name says so."""
    secret = bool(path.text) and bool(read_rule(canonical_path(path.text, env.cwd)))
    taint = Taint.SECRET if secret else Taint.INPUT
    return Value("", known=False, taints=path.taints | {taint})


def _mix_origins(values: Iterable[Value]) -> Value:
    """Return an unknown value with all the origins of `values`."""
    return Value("", known=False, taints=frozenset().union(*(value.taints for value in values)))


def _expand_home(value: Value) -> Value:
    return value._replace(text=HOME + value.text[1:]) if value.text.startswith("~") else value


def _replace_text(owner: Value, args: list[Value]) -> Value:
    if len(args) < 2 or not args[0].text:
        return owner
    return owner._replace(text=owner.text.replace(args[0].text, args[1].text)[:MAX_VALUE_LENGTH])


def _keep_value(owner: Value, _: list[Value]) -> Value:
    return owner


_METHODS: dict[str, Callable[[Value, list[Value]], Value]] = {
    **dict.fromkeys(
        ("decode", "encode", "strip", "rstrip", "lstrip", "format", "expanduser"), _keep_value
    ),
    "resolve": _keep_value,
    "as_posix": _keep_value,
    "lower": lambda owner, _: owner._replace(text=owner.text.lower()),
    "upper": lambda owner, _: owner._replace(text=owner.text.upper()),
    "replace": _replace_text,
    "home": lambda _, __: Value(HOME),
    "joinpath": lambda owner, args: join_values([owner, *args], "/"),
}
_READERS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: _constant_value,
    ast.Name: _name_value,
    ast.JoinedStr: _fstring_value,
    ast.FormattedValue: _formatted_value,
    ast.BinOp: _operation_value,
    ast.Subscript: _subscript_value,
    ast.Attribute: _attribute_value,
    ast.List: _sequence_value,
    ast.Tuple: _sequence_value,
    ast.Dict: _mapping_value,
    ast.IfExp: _choice_value,
    ast.Call: _call_value,
}
