"""The text of one file with its lines: offsets turn into lines and columns, and back.

Python's syntax tree counts columns in UTF-8 bytes; `SourceText` converts them to characters.
"""

import ast
import re
from bisect import bisect_right
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class LineColumn(NamedTuple):
    """A line and a column, both from 1."""

    line: int
    column: int


class SourceText:
    """The text of one file. Offsets count characters; lines end as in Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._known_widths: dict[int, list[int] | None] = {}

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line begins."""
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def line_column(self, offset: int) -> LineColumn:
        """Return the line and column of an offset."""
        line = bisect_right(self.line_starts, offset)
        return LineColumn(line, offset - self.line_starts[line - 1] + 1)

    def line_text(self, number: int) -> str:
        """Return a line with its end; an empty text if there is no such line."""
        if not 1 <= number <= len(self.line_starts):
            return ""
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[self.line_starts[number - 1] : end]

    def to_offset(self, number: int, column: int) -> int:
        """Return the offset of a line and column; columns count UTF-8 bytes, as in syntax trees."""
        widths = self._byte_widths(number)
        if widths is not None:
            column = bisect_right(widths, column) - 1
        start = self.line_starts[min(max(number, 1), len(self.line_starts)) - 1]
        return min(start + column, len(self.text))

    def _byte_widths(self, number: int) -> list[int] | None:
        """Return the byte offset of each character of a line; None if the line is ASCII."""
        if number not in self._known_widths:
            line = self.line_text(number)
            sizes = (len(letter.encode("utf-8", "surrogatepass")) for letter in line)
            self._known_widths[number] = None if line.isascii() else [0, *accumulate(sizes)]
        return self._known_widths[number]

    def node_span(self, node: ast.AST) -> tuple[int, int]:
        """Return the span of a syntax node; a node without a place is at the start."""
        start = self.to_offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        line = getattr(node, "end_lineno", None)
        end = start if line is None else self.to_offset(line, getattr(node, "end_col_offset", 0))
        return start, max(start, end)

    def string_offset(self, node: ast.expr, text: str) -> int | None:
        """Return the offset of a string's text if the source holds it unchanged."""
        start, end = self.node_span(node)
        for quotes in (1, 3, 2):
            offset = start + quotes
            if text and self.text.startswith(text, offset) and offset + len(text) < end:
                return offset
        return None


def split_names(text: str) -> tuple[str, ...]:
    """Return the words of `text`; the tables list programs as plain text."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """Return the set of the words of `text`."""
    return frozenset(text.split())


def decode_bytes(data: bytes) -> str:
    """Decode a file: UTF-8 without its byte order mark, broken bytes replaced.

    A file that starts with a UTF-16 mark is decoded as UTF-16, as Windows scripts often are.
    """
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace").decode("utf-8")
    return data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
