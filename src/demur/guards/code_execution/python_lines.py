"""Turns the lines and columns of Python's syntax tree, which count bytes, into offsets."""

import ast
import re

__all__ = ["NodePlaces"]

_END = re.compile(r"\r\n|\r|\n")


class NodePlaces:
    """Finds the spans of syntax nodes in one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ascii = text.isascii()
        self.starts = [0, *(match.end() for match in _END.finditer(text))]

    def node_span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the span of `node`, in characters."""
        start = self._to_offset(node.lineno, node.col_offset)
        end = self._to_offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return start, max(start, end)

    def _to_offset(self, line: int, column: int) -> int:
        start = self.starts[min(line, len(self.starts)) - 1]
        if self.ascii:
            return min(start + column, len(self.text))
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode("utf-8", "ignore"))

    def string_offset(self, node: ast.expr, text: str) -> int | None:
        """Return the offset of a string's text if the source holds it unchanged."""
        start, end = self.node_span(node)
        for quotes in (1, 3, 2):
            at = start + quotes
            if text and self.text[at : at + len(text)] == text and at + len(text) < end:
                return at
        return None
