"""Evaluate Python expressions as far as possible without running them.

Assembled, decoded and looked-up strings are computed (`'r' + 'm'`, `chr(114)`, `b64decode(...)`,
`getattr(os, 'sys' + 'tem')`). Data from files or the network keeps its origin.
"""

import ast
import re
from collections.abc import Callable, Iterable

from demur.guards.code_execution.call import MAX_VALUE_LENGTH, UNKNOWN, Taint, Value, join_values
from demur.guards.code_execution.outputs import decode_base64, decode_hex, decode_value
from demur.guards.code_execution.paths import HOME, canonical_path, read_rule
from demur.guards.static.python_names import PythonNames
from demur.guards.static.python_syntax import ConstantFolder
from demur.guards.static.source_text import split_names, word_set

_MAX_DEPTH = 40
_ENVIRONMENT = Value("", known=False, taints=frozenset({Taint.ENVIRONMENT}))
_VARIABLE = Value("", known=False, taints=frozenset({Taint.VARIABLE}))
_DOWNLOAD = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
_FETCHERS = word_set(
    "requests.get requests.post requests.put requests.request requests.Session requests.session"
    " httpx.get httpx.post httpx.put httpx.request httpx.Client aiohttp.request"
    " aiohttp.ClientSession urllib.request.urlopen urllib.request.Request urllib2.urlopen"
    " urllib.request.urlretrieve http.client.HTTPSConnection wget.download"
)
_DECODERS: dict[str, Callable[[str], str | None] | None] = {
    **dict.fromkeys(
        split_names(
            "base64.b64decode base64.standard_b64decode base64.urlsafe_b64decode base64.decodebytes"
            " binascii.a2b_base64"
        ),
        decode_base64,
    ),
    **dict.fromkeys(
        split_names(
            "base64.b16decode bytes.fromhex bytearray.fromhex binascii.unhexlify binascii.a2b_hex"
        ),
        decode_hex,
    ),
    **dict.fromkeys(
        split_names(
            "base64.b32decode base64.b85decode base64.a85decode zlib.decompress gzip.decompress"
            " bz2.decompress lzma.decompress marshal.loads codecs.decode codecs.encode"
            " zlib.decompressobj"
        )
    ),
}
_PATHS = word_set("pathlib.Path pathlib.PurePath pathlib.PosixPath Path")
_KEPT = word_set("str bytes bytearray compile os.fsencode os.path.expandvars repr io.BytesIO")


class PythonValues:
    """The modules and values that names stand for."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.static = PythonNames({}, frozenset(), ConstantFolder({}))
        self.modules: dict[str, str] = {}
        self.values: dict[str, Value] = {}

    def dotted_name(self, node: ast.expr, depth: int = 0) -> str:
        """Return the full name of a function or attribute: `sp.run` is `subprocess.run`."""
        if depth > _MAX_DEPTH:
            return ""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.NamedExpr | ast.Await):
            return self.dotted_name(node.value, depth + 1)
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

        def inner(child: ast.expr) -> Value:
            return self.evaluate_node(child, depth + 1)

        match node:
            case _ if depth > _MAX_DEPTH:
                value = UNKNOWN
            case ast.Constant(value=constant):
                raw = constant if isinstance(constant, bytes) else None
                value = Value(str(constant) if raw is None else raw.decode("latin-1"))
            case ast.Name(id=name):
                value = self.values.get(name, UNKNOWN)
            case ast.JoinedStr(values=parts):
                value = join_values([inner(part) for part in parts] or [Value("")])
            case ast.FormattedValue(value=child) | ast.IfExp(body=child):
                value = inner(child)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Dict(values=items):
                value = _mix_origins([inner(item) for item in items])
            case ast.BinOp(left=left, op=operator, right=right):
                value = _operation_value(inner(left), operator, inner(right))
            case _:
                value = self._access_value(node, depth + 1)
        return value if value.known else self._folded_value(node, value)

    def _folded_value(self, node: ast.expr, value: Value) -> Value:
        """Return the constant text of `node`, or `value` if it is not constant."""
        folded = self.static.fold(node)
        text = folded.value if folded else None
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        return value._replace(text=text, known=True) if isinstance(text, str) else value

    def _access_value(self, node: ast.expr, depth: int) -> Value:
        """Return the value of an attribute, an item or a call."""
        match node:
            case ast.Call():
                value = _call_value(self, node, depth)
            case ast.Attribute() if self.dotted_name(node) == "os.environ":
                value = _ENVIRONMENT
            case ast.Attribute() if self.dotted_name(node) == "sys.executable":
                value = self.values.get("sys.executable", Value("python3"))
            case ast.Attribute(value=child):
                value = self.evaluate_node(child, depth)._replace(text="", known=False)
            case ast.Subscript(value=child, slice=key) if self.dotted_name(child) == "os.environ":
                value = _environment_value(self.evaluate_node(key, depth))
            case ast.Subscript(value=child, slice=ast.Slice(None, None, ast.expr())):
                value = self.evaluate_node(child, depth)
                value = value._replace(text=value.text[::-1])
            case ast.Subscript(value=child):
                value = self.evaluate_node(child, depth)._replace(known=False)
            case _:
                value = UNKNOWN
        return value


def _operation_value(left: Value, operator: ast.operator, right: Value) -> Value:
    if isinstance(operator, ast.Add):
        return join_values([left, right])
    if isinstance(operator, ast.Div):
        return join_values([left, right], "/")
    if isinstance(operator, ast.Mult) and right.text.isdigit():
        return left._replace(text=(left.text * min(int(right.text[:4]), 1000))[:MAX_VALUE_LENGTH])
    if isinstance(operator, ast.Mod):
        filled = left.text.replace("%s", right.text)[:MAX_VALUE_LENGTH]
        return join_values([left, right])._replace(text=filled)
    return _mix_origins([left, right])


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
        path = join_values(args, "/") if args else Value(".")
        return path._replace(text=re.sub("^~", HOME, path.text))
    if name in {"os.getenv", "os.environ.get"}:
        return _environment_value(first)
    return first if name in _KEPT else _method_value(env, node, name, args, depth)


def _environment_value(name: Value) -> Value:
    """Return the value of an environment variable."""
    return Value(HOME) if name.text == "HOME" else _VARIABLE


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
    if method := _METHODS.get(node.func.attr):
        return method(owner, args)
    items = node.args[0] if node.args else None
    if node.func.attr == "join" and isinstance(items, ast.List | ast.Tuple):
        parts = [env.evaluate_node(item, depth) for item in items.elts]
        return join_values(parts or [Value("")], owner.text)
    reads = node.func.attr in {"read_text", "read_bytes"}
    return _file_value(env, owner) if reads else _mix_origins([owner, *args])


def _file_value(env: PythonValues, path: Value) -> Value:
    """Return the unknown content of a file, marked secret if its name says so."""
    secret = path.text and read_rule(canonical_path(path.text, env.cwd))
    taint = Taint.SECRET if secret else Taint.INPUT
    return Value("", known=False, taints=path.taints | {taint})


def _mix_origins(values: Iterable[Value]) -> Value:
    """Return an unknown value with all the origins of `values`."""
    return Value("", known=False, taints=frozenset().union(*(value.taints for value in values)))


def _replace_text(owner: Value, args: list[Value]) -> Value:
    if len(args) < 2 or not args[0].text:
        return owner
    return owner._replace(text=owner.text.replace(args[0].text, args[1].text)[:MAX_VALUE_LENGTH])


_METHODS: dict[str, Callable[[Value, list[Value]], Value]] = {
    **dict.fromkeys(
        split_names("decode encode strip rstrip lstrip expanduser resolve as_posix"),
        lambda owner, _: owner,
    ),
    "format": lambda owner, args: _mix_origins([owner, *args])._replace(text=owner.text),
    "lower": lambda owner, _: owner._replace(text=owner.text.lower()),
    "upper": lambda owner, _: owner._replace(text=owner.text.upper()),
    "replace": _replace_text,
    "home": lambda _, __: Value(HOME),
    "joinpath": lambda owner, args: join_values([owner, *args], "/"),
}
