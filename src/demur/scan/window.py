"""A stretch of folded text, looked at with all of the text around it in view."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.scan.pattern import Pattern
from demur.scan.re2_engine import compile_searcher

__all__ = ["SearchWindow"]


class SearchWindow(NamedTuple):
    """The stretch of `data` in which matches may begin; it may reach beyond the text."""

    data: bytes
    start: int
    end: int

    def find_spans(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        """Yield the matches that begin in the stretch, in order."""
        # One more byte on either side, so that word boundaries match correctly.
        first = max(self.start - 1, 0)
        part = self.data[first : self.end + pattern.width + 1]
        for found in compile_searcher(pattern.expression).finditer(
            part, max(self.start, 0) - first
        ):
            start, end = found.span()
            if start + first >= self.end:
                return
            yield start + first, end + first

    def has_match(self, pattern: Pattern) -> bool:
        """Return whether a match begins in the stretch."""
        return next(self.find_spans(pattern), None) is not None
