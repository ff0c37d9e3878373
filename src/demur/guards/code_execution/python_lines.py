"""Turns the lines and columns of Python's syntax tree, which count bytes, into offsets."""

import ast
import re

__all__ = ["Lines"]

_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """Finds the spans of syntax nodes in one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ascii = text.isascii()
        self.starts = [0, *(match.end() for match in _END.finditer(text))]

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the span of `node`, in characters."""
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return start, max(start, end)

    def _offset(self, line: int, column: int) -> int:
        start = self.starts[min(line, len(self.starts)) - 1]
        if self.ascii:
            return min(start + column, len(self.text))
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode("utf-8", "ignore"))

    def inside(self, node: ast.expr, text: str) -> int | None:
        """Return the offset of a string's text if the source holds it unchanged."""
        start, end = self.place(node)
        for quotes in (1, 3, 2):
            at = start + quotes
            if text and self.text[at : at + len(text)] == text and at + len(text) < end:
                return at
        return None
