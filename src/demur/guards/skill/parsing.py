"""Parse Python of any version as far as it goes.

A file that this Python cannot parse may run well under another one. So what fails is
reported, and the statements around it are parsed one by one and judged all the same.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

__all__ = ["ParsedPython", "ParseProblem", "parse_leniently"]

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
        return ast.parse(text)


def _describe_failure(error: BaseException) -> ParseProblem:
    if isinstance(error, SyntaxError):
        return ParseProblem(max(error.lineno or 1, 1), max((error.offset or 1) - 1, 0), error.msg)
    deep = isinstance(error, RecursionError | MemoryError)
    return ParseProblem(1, 0, "nested too deep" if deep else str(error))


def _parse_piecewise(text: str) -> ast.Module:
    plain = text.replace("\r\n", " \n").replace("\r", "\n").replace("\0", " ")
    body: list[ast.stmt] = []
    for start, part in _split_statements(plain):
        try:
            tree = _parse_tree(part)
        except _PARSE_FAILURES:
            continue
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
