"""Find which patterns match, with re2: always there, linear, and slower on fresh text."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import re2

__all__ = ["Re2Engine", "searcher"]

# re2 builds the automaton while matching; with too little memory it starts over.
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
    """Finds which expressions match in a text. Safe to share between threads."""

    name = "re2"
    # The automaton is built while matching, and stays small for words alone.
    largest = 0

    def __init__(self, expressions: Sequence[bytes], *, once: Collection[int] = ()) -> None:
        del once  # It never reports places.
        self._set = re2.Set.SearchSet(_options(longest=False))
        for expression in expressions:
            self._set.Add(expression)
        self._set.Compile()

    def matching(self, data: bytes) -> dict[int, list[int]]:
        """Return the indices of the expressions that match, without places."""
        return {index: [] for index in sorted(self._set.Match(data) or ())}
