"""Find which patterns match, with re2: always there, linear, and slower on fresh text."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import re2

__all__ = ["Re2Engine", "searcher"]

# The automaton of a rule set is built while matching; too little room makes it forget.
_MEMORY = 256 << 20


def _options(*, longest: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    options.longest_match = longest
    options.max_mem = _MEMORY
    return options


@lru_cache(maxsize=4096)
def searcher(expression: bytes) -> Any:
    """Return a compiled expression whose matches are the leftmost and the longest."""
    return re2.compile(expression, _options(longest=True))


class Re2Engine:
    """Says which of the expressions match somewhere in a text. Safe to share."""

    name = "re2"
    # Its automaton is made while it runs: that of words stays small.
    largest = 0

    def __init__(self, expressions: Sequence[bytes], *, once: Collection[int] = ()) -> None:
        del once  # It says everything once.
        self._set = re2.Set.SearchSet(_options(longest=False))
        for expression in expressions:
            self._set.Add(expression)
        self._set.Compile()

    def matching(self, data: bytes) -> dict[int, list[int]]:
        """Return the indices of the expressions that match; it cannot say where."""
        return {index: [] for index in sorted(self._set.Match(data) or ())}
