"""Find misused reason codes in a Python file, by its syntax tree and never by running it."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator

from demur.codes.line import MARK
from demur.codes.registry import Registry
from demur.codes.usage.comments import MARKER, Comment, apply_comments
from demur.codes.usage.imports import Imports
from demur.codes.usage.places import code_places, member_name
from demur.codes.usage.reading import read_only
from demur.codes.usage.rules import RULES, Place, Remark, Sighting, Trust, judge, shown, unreadable

__all__ = ["read_python"]

_NEWLINE = re.compile(r"\r\n?")
# A file without any of these has no place for a code. Most files have none.
_RELEVANT = re.compile(r"REFUSED|demur|\bcodes\b|reason_code|resolved_codes|format_refusal")


def read_python(source: bytes, registry: Registry) -> list[Sighting]:
    """Return the problems of codes in a Python file; a syntax error is one too."""
    try:
        raw, tree = _parse(source)
    except (SyntaxError, LookupError, ValueError, RecursionError, MemoryError) as error:
        return [_broken(error)]
    text = _NEWLINE.sub("\n", raw)
    if not _RELEVANT.search(text):
        return []
    try:
        return list(apply_comments(_Reader(text, tree, registry).sightings(), _comments(text)))
    except RecursionError:
        return [unreadable("nested too deep to look for codes")]


def _parse(source: bytes) -> tuple[str, ast.Module]:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    with warnings.catch_warnings():
        # Warnings about the file's own string escapes are not ours to report.
        warnings.simplefilter("ignore")
        text = source.decode(encoding)
        return text, ast.parse(text)


def _broken(error: Exception) -> Sighting:
    match error:
        case SyntaxError():
            place = (max(error.lineno or 1, 1), max(error.offset or 1, 1))
            return unreadable(f"not Python: {error.msg}", *place)
        case UnicodeDecodeError():
            before = bytes(error.object[: error.start]).decode("utf-8", "replace").split("\n")
            return unreadable(f"not {error.encoding} text", len(before), len(before[-1]) + 1)
        case RecursionError() | MemoryError():
            return unreadable("not Python: nested too deep")
        case _:
            return unreadable(f"not Python: {error}")


def _comments(text: str) -> Iterator[Comment]:
    if MARKER not in text:
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield Comment(token.start[0], token.start[1] + 1, token.string)
    except tokenize.TokenError:
        # The tokenizer rejects some file endings that the parser accepts; no comment follows.
        return


class _Reader:
    """Checks the codes in the syntax tree of one file."""

    def __init__(self, text: str, tree: ast.Module, registry: Registry) -> None:
        self._lines = text.split("\n")
        self._nodes = tuple(ast.walk(tree))
        self._registry = registry
        self._imports = Imports(self._nodes)
        self._read_only = read_only(self._nodes)

    def sightings(self) -> Iterator[Sighting]:
        """Yield every problem. One that is found in two ways is yielded twice."""
        yield from self._codes()
        yield from self._raw_strings()

    def _codes(self) -> Iterator[Sighting]:
        seen: set[int] = set()
        for node, place in code_places(self._nodes, self._imports):
            seen.add(id(node))
            for remark in self._judge(node, place):
                yield self._at(node, remark)
        for other in self._nodes:
            if isinstance(other, ast.Attribute) and id(other) not in seen:
                yield from self._member(other)

    def _member(self, node: ast.Attribute) -> Iterator[Sighting]:
        member = member_name(node, self._imports)
        if member is None:
            return
        place = Place(Trust.CERTAIN, emits=id(node) not in self._read_only)
        for remark in judge(member, place, self._registry):
            # A table may name the fallback code; only emitting it directly is too broad.
            if remark.rule != "broad-code":
                yield self._at(node, remark)

    def _judge(self, node: ast.expr, place: Place) -> Iterator[Remark]:
        text = member_name(node, self._imports) or _literal(node)
        if text is not None:
            yield from judge(text, place, self._registry)
            return
        constants = _built(node)
        if constants is not None and place.expects_built(constants):
            rule = RULES["dynamic-code"]
            yield Remark(rule.id, f"code built at run time: {shown(self._source(node))}", rule.help)

    def _raw_strings(self) -> Iterator[Sighting]:
        quiet = self._read_only | _docstrings_and_parts(self._nodes)
        rule = RULES["raw-refusal-string"]
        for node in self._nodes:
            if id(node) not in quiet and (written := _written_line(node)) is not None:
                message = f"refusal line written by hand: {shown(self._source(written))}"
                yield self._at(written, Remark(rule.id, message, rule.help))

    def _at(self, node: ast.expr, remark: Remark) -> Sighting:
        line = self._lines[node.lineno - 1]
        column = len(line.encode()[: node.col_offset].decode()) + 1
        last = node.end_lineno or node.lineno
        return Sighting(node.lineno, column, remark.rule, remark.message, remark.help, last)

    def _source(self, node: ast.expr) -> str:
        """Return the source text of the node on its first line."""
        line = self._lines[node.lineno - 1].encode()
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        return line[node.col_offset : end].decode()


def _literal(node: ast.expr) -> str | None:
    """Return the constant text of `node`, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            texts = [_literal(part) for part in parts]
            return None if None in texts else "".join(filter(None, texts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _literal(left), _literal(right)
            return None if first is None or second is None else first + second
        case _:
            return None


def _built(node: ast.expr) -> str | None:
    """Return the constant parts of a text that is built at run time, or None."""
    match node:
        case ast.JoinedStr(values=[_, _, *_] as parts):
            return " ".join(_literal(part) or "" for part in parts)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _literal(left) or _built(left)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [_literal(side) or _built(side) for side in (left, right)]
            return None if sides == [None, None] else " ".join(filter(None, sides))
        case ast.Call(func=ast.Attribute(value=template, attr="format" | "format_map" | "join")):
            return _literal(template)
        case _:
            return None


def _docstrings_and_parts(nodes: Iterable[ast.AST]) -> set[int]:
    """Return the ids of texts that are documentation, or a part of an f-string."""
    quiet: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr):
            quiet.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            quiet.update(map(id, node.values))
    return quiet


def _written_line(node: ast.AST) -> ast.expr | None:
    """Return the text in `node` that writes a refusal line by hand.

    The mark alone is no refusal line: parsers search for it.
    """
    match node:
        case ast.Constant(value=str(text)) if _after_mark(text):
            return node
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *more]):
            return node if _after_mark(text) or (more and _after_mark(text) == "") else None
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Add()):
            return node if _after_mark(text) == "" else None
        case _:
            return None


def _after_mark(text: str) -> str | None:
    """Return the text after the mark, or None if `text` does not begin with it."""
    text = text.lstrip()
    return text[len(MARK) :].strip() if text.startswith(MARK) else None
