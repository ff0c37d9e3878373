"""Parse Python as far as possible, and fold constant expressions.

A file that this Python cannot parse may run under another version. So the parser reports the
failure and still returns the statements around it that do parse. Folding computes `'sys' + 'tem'`,
`chr(111) + chr(115)`, `'metsys'[::-1]` and decoded literals, and says whether the source disguised
the constant. Depth and length are bounded.
"""

import ast
import base64
import binascii
import codecs
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from demur.source.python_tree import parse_tree

# A line at the margin that starts a statement; `else` and the like continue one.
_STATEMENT = re.compile(r"^(?!(?:else|elif|except|finally|case)\b)[A-Za-z_@]", re.MULTILINE)
_DECORATED = re.compile(r"(?:@[^\n]*\n)+\Z")
_PARSE_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError)
_MAX_PARTS = 5000


class ParseProblem(NamedTuple):
    """The position of a syntax error, in the units of syntax trees, and its message."""

    line: int
    column: int
    problem: str


class ParsedPython(NamedTuple):
    """The tree of the parts that parse, and the first problem."""

    tree: ast.Module
    trouble: ParseProblem | None


def parse_leniently(text: str) -> ParsedPython:
    """Return the tree of `text`, or of the statements in it that parse."""
    try:
        return ParsedPython(_parse_tree(text), None)
    except _PARSE_FAILURES as error:
        return ParsedPython(_parse_piecewise(text), _describe_failure(error))


def _parse_tree(text: str) -> ast.Module:
    with warnings.catch_warnings():
        # Invalid escapes in a scanned file must not warn our user.
        warnings.simplefilter("ignore")
        return parse_tree(text)


def parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of `text`, or None if it does not parse."""
    try:
        return _parse_tree(text)
    except _PARSE_FAILURES:
        return None


def _describe_failure(error: BaseException) -> ParseProblem:
    if isinstance(error, SyntaxError):
        return ParseProblem(max(error.lineno or 1, 1), max((error.offset or 1) - 1, 0), error.msg)
    deep = isinstance(error, RecursionError | MemoryError)
    return ParseProblem(1, 0, "nested too deep" if deep else str(error))


def _parse_piecewise(text: str) -> ast.Module:
    plain = text.replace("\r\n", " \n").replace("\r", "\n").replace("\0", " ")
    body: list[ast.stmt] = []
    for start, part in _split_statements(plain):
        if tree := parse_python(part):
            ast.increment_lineno(tree, plain.count("\n", 0, start))
            body += tree.body
    return ast.Module(body=body, type_ignores=[])


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the statements at the margin, each with its decorators."""
    starts = [found.start() for found in _STATEMENT.finditer(text)][:_MAX_PARTS]
    kept: list[int] = []
    for start in starts:
        if not (kept and _DECORATED.fullmatch(text, kept[-1], start)):
            kept.append(start)
    for start, end in pairwise([*kept, len(text)]):
        yield start, text[start:end]


_MAX_FOLD_DEPTH = 30
_MAX_TEXT_LENGTH = 20_000
_MAX_HIDDEN_LENGTH = 24
_FOLD_FAILURES = (ValueError, TypeError, LookupError, AttributeError, OverflowError, binascii.Error)
_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "b64decode": base64.b64decode,
    "urlsafe_b64decode": base64.urlsafe_b64decode,
    "b32decode": base64.b32decode,
    "b16decode": base64.b16decode,
    "b85decode": base64.b85decode,
    "a85decode": base64.a85decode,
    "decodebytes": base64.decodebytes,
    "fromhex": bytes.fromhex,
    "unhexlify": binascii.unhexlify,
    "a2b_hex": binascii.a2b_hex,
    "a2b_base64": binascii.a2b_base64,
}
_ENCODERS: Mapping[str, Callable[[Any], Any]] = {
    "b64encode": base64.b64encode,
    "hexlify": binascii.hexlify,
}
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "chr": chr,
    "ord": ord,
    "str": str,
    "int": int,
    "len": len,
    "list": list,
    "tuple": list,
    "sorted": sorted,
    "reversed": lambda value: value[::-1],
}
_DISGUISES = frozenset({"chr", "reversed"})
_SUMS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
}
_PLAIN_METHODS = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "title", "swapcase", "casefold", "capitalize"}
    | {"split", "splitlines", "encode", "format", "removeprefix", "removesuffix", "copy", "keys"}
)
# Signs of a format that does more than to insert its values.
_PLAIN_FORMAT = frozenset("[:!.")
_MAX_ITEMS = 2_000
_MAX_TURNS = 20_000
_ROTATIONS = frozenset({"rot13", "rot_13", "hex", "base64"})


class FoldedConstant(NamedTuple):
    """A constant, and whether the source disguises it."""

    value: Any
    hidden: bool = False


class _NotConstant(Exception):  # noqa: N818 - not an error: the expression is no constant
    """The expression is not constant."""


class ConstantFolder:
    """Folds the expressions of one file, each once. `constants`: names assigned once."""

    def __init__(self, constants: Mapping[str, ast.expr], budget: list[int] | None = None) -> None:
        self._constants = constants
        # The turns of loops that may still be folded, shared with loops inside loops.
        self._budget = [_MAX_TURNS] if budget is None else budget
        self._folded: dict[int, FoldedConstant | None] = {}
        self._strings: dict[int, str] = {}

    def fold(self, node: ast.expr, depth: int = 0) -> FoldedConstant | None:
        """Return the constant value of `node`, or None if it is not constant."""
        if depth > _MAX_FOLD_DEPTH:
            return None
        key = id(node)
        if key not in self._folded:
            # A name that refers to itself is not constant.
            self._folded[key] = None
            try:
                self._folded[key] = self._fold_node(node, depth)
            except (_NotConstant, *_FOLD_FAILURES):
                pass
        return self._folded[key]

    def find_constant(self, name: str) -> ast.expr | None:
        """Return the expression that a name is assigned to, if it is assigned once."""
        return self._constants.get(name)

    def join_strings(self, node: ast.expr, depth: int = 0) -> str:
        """Return the constant texts in an expression, joined by slashes like a path."""
        key = id(node)
        if key not in self._strings:
            self._strings[key] = ""
            self._strings[key] = self._node_text(node, depth)[:_MAX_TEXT_LENGTH]
        return self._strings[key]

    def _node_text(self, node: ast.expr, depth: int) -> str:
        folded = self.fold(node)
        if folded is not None:
            value = folded.value
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
        if depth > _MAX_FOLD_DEPTH:
            return ""
        if isinstance(node, ast.Name):
            constant = self._constants.get(node.id)
            return "" if constant is None else self.join_strings(constant, depth + 1)
        inner = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return "/".join(text for child in inner if (text := self.join_strings(child, depth + 1)))

    def _fold_node(self, node: ast.expr, depth: int) -> FoldedConstant:
        def inner(child: ast.expr) -> FoldedConstant:
            folded = self.fold(child, depth + 1)
            if folded is None:
                raise _NotConstant
            value = folded.value
            if isinstance(value, str | bytes | list) and len(value) > _MAX_TEXT_LENGTH:
                raise _NotConstant
            return folded

        match node:
            case ast.Constant(value=str() | bytes() | int() as value):
                folded = FoldedConstant(value)
            case ast.Name(id=name) if name in self._constants:
                folded = inner(self._constants[name])
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                folded = inner(value)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                folded = _fold_all([inner(part) for part in parts])
            case ast.ListComp() | ast.GeneratorExp():
                folded = self._fold_loop(node, inner)
            case ast.JoinedStr(values=parts):
                values, hidden = _fold_all([inner(part) for part in parts])
                folded = FoldedConstant(_join_pieces("", list(map(str, values))), hidden)
            case _:
                return _fold_operation(node, inner)
        return folded

    def _fold_loop(
        self,
        node: ast.ListComp | ast.GeneratorExp,
        inner: Callable[[ast.expr], FoldedConstant],
    ) -> FoldedConstant:
        """Return the items of a loop over constants."""
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=items, ifs=[])]:
                values = _list_items(inner(items).value)
            case _:
                raise _NotConstant
        found = []
        for value in values:
            self._budget[0] -= 1
            if self._budget[0] < 0:
                raise _NotConstant
            turn = ConstantFolder({**self._constants, name: ast.Constant(value)}, self._budget)
            folded = turn.fold(node.elt, 1)
            if folded is None:
                raise _NotConstant
            found.append(folded.value)
        return FoldedConstant(found, True)


def _list_items(value: object) -> list[Any]:
    if not isinstance(value, str | bytes | list) or len(value) > _MAX_ITEMS:
        raise _NotConstant
    return list(value)


def _fold_operation(node: ast.expr, inner: Callable[[ast.expr], FoldedConstant]) -> FoldedConstant:
    match node:
        case ast.BinOp():
            return _fold_sum(node, inner)
        case ast.Dict(keys=[_, *_] as keys, values=parts) if all(keys):
            values, hidden = _fold_all([inner(part) for part in parts])
            texts = [inner(key).value for key in keys if key is not None]
            return FoldedConstant(dict(zip(texts, values, strict=True)), hidden)
        case ast.Subscript(value=value, slice=ast.Slice() as cut):
            return _fold_slice(inner(value), cut, inner)
        case ast.Subscript(value=value, slice=index):
            folded = inner(value)
            return FoldedConstant(folded.value[inner(index).value], folded.hidden)
        case ast.UnaryOp(op=ast.USub(), operand=value):
            return FoldedConstant(-inner(value).value)
        case ast.Call():
            return _fold_call(node, inner)
        case _:
            raise _NotConstant


def _fold_all(parts: list[FoldedConstant]) -> FoldedConstant:
    return FoldedConstant([part.value for part in parts], any(part.hidden for part in parts))


def _fold_sum(node: ast.BinOp, inner: Callable[[ast.expr], FoldedConstant]) -> FoldedConstant:
    left, right = inner(node.left), inner(node.right)
    match node.op, left.value, right.value:
        case ast.Add(), str() | bytes(), str() | bytes():
            # Adding text to bytes raises; the caller treats that as not constant.
            value: Any = left.value
            value += right.value
            # Authors break long texts over lines; joining short pieces disguises a word.
            short = len(value) <= _MAX_HIDDEN_LENGTH
            return FoldedConstant(value, left.hidden or right.hidden or short)
        case ((ast.Add() | ast.Sub() | ast.BitXor()), int(), int()):
            return FoldedConstant(_SUMS[type(node.op)](left.value, right.value), True)
        case ast.Add(), list(), list():
            return FoldedConstant([*left.value, *right.value], left.hidden or right.hidden)
        case ast.Mod(), str(), _ if left.value.count("%") == left.value.count("%s"):
            values = right.value if isinstance(right.value, list) else [right.value]
            return FoldedConstant(left.value % tuple(values), left.hidden or right.hidden)
        case ast.Mult(), str() | bytes(), int() if len(left.value) * right.value < _MAX_ITEMS:
            return FoldedConstant(left.value * right.value, left.hidden)
        case _:
            raise _NotConstant


def _fold_slice(
    folded: FoldedConstant, cut: ast.Slice, inner: Callable[[ast.expr], FoldedConstant]
) -> FoldedConstant:
    ends = [None if end is None else inner(end).value for end in (cut.lower, cut.upper, cut.step)]
    return FoldedConstant(folded.value[slice(*ends)], folded.hidden or ends[2] is not None)


def _fold_call(node: ast.Call, inner: Callable[[ast.expr], FoldedConstant]) -> FoldedConstant:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[value, *rest]):
            return _fold_function(name, value, rest, inner)
        case ast.Call(func=ast.Attribute(attr="join", value=glue), args=[parts]):
            return FoldedConstant(_join_pieces(inner(glue).value, inner(parts).value), True)
        case ast.Call(func=ast.Attribute(attr=name, value=base)):
            return _fold_method(name, base, node.args, inner)
        case _:
            raise _NotConstant


def _fold_function(
    name: str, first: ast.expr, rest: list[ast.expr], inner: Callable[[ast.expr], FoldedConstant]
) -> FoldedConstant:
    match name, first, rest:
        case "map", ast.Name(id=function), [values] if function in _CONVERTERS:
            items = _list_items(inner(values).value)
            folded = FoldedConstant([_CONVERTERS[function](item) for item in items], True)
        case (("str" | "bytes"), _, [_]):
            folded = _convert_text(inner(first))
        case (("bytes" | "bytearray"), _, []):
            folded = FoldedConstant(bytes(_require_numbers(inner(first).value)), True)
        case _, _, [] if name in _CONVERTERS:
            value, hidden = inner(first)
            folded = FoldedConstant(_CONVERTERS[name](value), hidden or name in _DISGUISES)
        case _ if name in _DECODERS:
            folded = FoldedConstant(_DECODERS[name](inner(first).value), True)
        case _:
            raise _NotConstant
    return folded


def _convert_text(folded: FoldedConstant) -> FoldedConstant:
    """Return bytes as text, and text as bytes."""
    value = folded.value
    other = value.decode("utf-8") if isinstance(value, bytes) else value.encode("utf-8")
    return FoldedConstant(other, folded.hidden)


def _join_pieces(glue: Any, pieces: Any) -> Any:
    if sum(map(len, pieces)) + len(glue) * len(pieces) > _MAX_TEXT_LENGTH:
        raise _NotConstant
    return glue.join(pieces)


def _require_numbers(value: object) -> list[int]:
    if not isinstance(value, list):
        raise _NotConstant
    return value


def _fold_method(
    name: str, base: ast.expr, args: list[ast.expr], inner: Callable[[ast.expr], FoldedConstant]
) -> FoldedConstant:
    if (coder := _DECODERS.get(name) or _ENCODERS.get(name)) and args:
        return FoldedConstant(coder(inner(args[0]).value), True)
    values = [inner(arg).value for arg in args]
    if name == "decode" and len(args) == 2 and values[1] in _ROTATIONS:
        return FoldedConstant(codecs.decode(values[0], values[1]), True)
    value, hidden = inner(base)
    match name, values:
        case "decode", [] | [_]:
            folded = value.decode("utf-8")
        case "replace", [old, new] if (value.count(old) + 1) * len(new) <= _MAX_TEXT_LENGTH:
            folded, hidden = value.replace(old, new), True
        case "get", [key] if isinstance(value, dict):
            folded = value[key]
        case "format", _ if not isinstance(value, str) or not _PLAIN_FORMAT.isdisjoint(value):
            raise _NotConstant
        case _ if name in _PLAIN_METHODS:
            folded = getattr(value, name)(*values)
        case _:
            raise _NotConstant
    return FoldedConstant(folded, hidden)
