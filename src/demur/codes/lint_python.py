"""Find misused reason codes in a Python file from its syntax tree, without running it.

Texts that are only compared, searched for or looked up emit nothing, and are not reported. A
name that is used for nothing else passes this on.
"""

import ast
import io
import re
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from demur.codes.lint_places import (
    DemurImports,
    built_constants,
    code_places,
    literal_text,
    member_name,
)
from demur.codes.lint_prose import detail_problems, may_refuse, prose_problems
from demur.codes.lint_rules import (
    CODE_RULES,
    SUPPRESSION_MARKER,
    CodeDiagnostic,
    LocatedDiagnostic,
    PlaceCertainty,
    PlaceKind,
    SourceComment,
    apply_suppressions,
    check_code,
    quote_text,
    unreadable_file,
)
from demur.codes.refusal_line import REFUSAL_MARK
from demur.codes.registry import Registry
from demur.source.python_tree import parse_tree

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
    values = (value for node in every for value in _read_values(node))
    direct = {id(part) for value in values for part in _spread_parts(value)}
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
        still = direct | {part for part, names in flow.names.items() if names <= quiet}
        loud = {name for name in quiet if not flow.uses[name] <= still}
        if not loud:
            return quiet
        quiet -= loud


_NEWLINE = re.compile(r"\r\n?")
# A file without any of these has no place for a code. Most files have none.
_RELEVANT = re.compile(r"REFUSED|demur|\bcodes\b|reason_code|resolved_codes|format_refusal")


def check_python(source: bytes, registry: Registry) -> list[LocatedDiagnostic]:
    """Return the problems of codes in a Python file; a syntax error is one too."""
    try:
        raw, tree = _parse_source(source)
    except (SyntaxError, LookupError, ValueError, RecursionError, MemoryError) as error:
        return [_syntax_diagnostic(error)]
    text = _NEWLINE.sub("\n", raw)
    if not _RELEVANT.search(text) and not may_refuse(text, registry):
        return []
    try:
        found = _PythonLinter(text, tree, registry).find_problems()
        return list(apply_suppressions(found, _python_comments(text)))
    except RecursionError:
        return [unreadable_file("nested too deep to look for codes")]


def _parse_source(source: bytes) -> tuple[str, ast.Module]:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    with warnings.catch_warnings():
        # Warnings about the file's own string escapes are not ours to report.
        warnings.simplefilter("ignore")
        text = source.decode(encoding)
        return text, parse_tree(text)


def _syntax_diagnostic(error: Exception) -> LocatedDiagnostic:
    match error:
        case SyntaxError():
            place = (max(error.lineno or 1, 1), max(error.offset or 1, 1))
            return unreadable_file(f"not Python: {error.msg}", *place)
        case UnicodeDecodeError():
            before = bytes(error.object[: error.start]).decode("utf-8", "replace").split("\n")
            return unreadable_file(f"not {error.encoding} text", len(before), len(before[-1]) + 1)
        case RecursionError() | MemoryError():
            return unreadable_file("not Python: nested too deep")
        case _:
            return unreadable_file(f"not Python: {error}")


def _python_comments(text: str) -> Iterator[SourceComment]:
    if SUPPRESSION_MARKER not in text:
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield SourceComment(token.start[0], token.start[1] + 1, token.string)
    except tokenize.TokenError:
        # The tokenizer rejects some file endings that the parser accepts; no comment follows.
        return


class _PythonLinter:
    """Checks the codes in the syntax tree of one file."""

    def __init__(self, text: str, tree: ast.Module, registry: Registry) -> None:
        self._lines = text.split("\n")
        self._nodes = tuple(ast.walk(tree))
        self._registry = registry
        self._imports = DemurImports(self._nodes)
        self._read_only = find_read_only(self._nodes)

    def find_problems(self) -> Iterator[LocatedDiagnostic]:
        """Yield every problem. One that is found in two ways is yielded twice."""
        yield from self._check_codes()
        quiet = self._read_only | _docstrings_and_parts(self._nodes)
        rule = CODE_RULES["raw-refusal-string"]
        for node in self._nodes:
            if id(node) not in quiet and (written := _written_line(node)) is not None:
                message = f"refusal line written by hand: {quote_text(self._source_text(written))}"
                yield self._locate_diagnostic(written, CodeDiagnostic(rule.id, message, rule.help))
        for found in (
            *prose_problems(self._nodes, self._registry),
            *detail_problems(self._nodes, self._imports, self._registry),
        ):
            if id(found.node) not in self._read_only:
                yield self._locate_diagnostic(found.node, found.diagnostic)

    def _check_codes(self) -> Iterator[LocatedDiagnostic]:
        seen: set[int] = set()
        for node, place in code_places(self._nodes, self._imports):
            seen.add(id(node))
            for diagnostic in self._check_expression(node, place):
                yield self._locate_diagnostic(node, diagnostic)
        for other in self._nodes:
            if isinstance(other, ast.Attribute) and id(other) not in seen:
                yield from self._check_member(other)

    def _check_member(self, node: ast.Attribute) -> Iterator[LocatedDiagnostic]:
        member = member_name(node, self._imports)
        if member is None:
            return
        place = PlaceKind(PlaceCertainty.CERTAIN, emits=id(node) not in self._read_only)
        for diagnostic in check_code(member, place, self._registry):
            # A table may name the fallback code; only emitting it directly is too broad.
            if diagnostic.rule != "broad-code":
                yield self._locate_diagnostic(node, diagnostic)

    def _check_expression(self, node: ast.expr, place: PlaceKind) -> Iterator[CodeDiagnostic]:
        text = member_name(node, self._imports) or literal_text(node)
        if text is not None:
            yield from check_code(text, place, self._registry)
            return
        constants = built_constants(node)
        if constants is not None and place.expects_built(constants):
            rule = CODE_RULES["dynamic-code"]
            message = f"code built at run time: {quote_text(self._source_text(node))}"
            yield CodeDiagnostic(rule.id, message, rule.help)

    def _locate_diagnostic(self, node: ast.expr, diagnostic: CodeDiagnostic) -> LocatedDiagnostic:
        line = self._lines[node.lineno - 1]
        column = len(line.encode()[: node.col_offset].decode()) + 1
        last = node.end_lineno or node.lineno
        return LocatedDiagnostic(node.lineno, column, *diagnostic, last)

    def _source_text(self, node: ast.expr) -> str:
        """Return the source text of the node on its first line."""
        line = self._lines[node.lineno - 1].encode()
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        return line[node.col_offset : end].decode()


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
    return text[len(REFUSAL_MARK) :].strip() if text.startswith(REFUSAL_MARK) else None
