"""What every search in model text has in common, whether the text is whole or still coming.

A search starts at some place of a window and says what it saw, and from which place on it
cannot tell yet because text is missing. Whatever it decides depends on the text alone, a
little of it before the place (`reach`) and none beyond what it has seen; so it makes no
difference in how many pieces a text came.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from demur.model.finding import Action

__all__ = ["NO_MATCHES", "SearchFunction", "TextSearch", "TextMatch", "SearchStep", "has_long_word"]


class TextMatch(NamedTuple):
    """One match, by its place in the window."""

    start: int
    end: int
    code: str
    action: Action
    detail: str
    evidence: Mapping[str, Any]


class SearchStep(NamedTuple):
    """The matches in the order of places, and the place where the search has to continue."""

    matches: tuple[TextMatch, ...]
    undecided: int


# Called as `search(text, begin, final)`: it looks for nothing that starts before `begin`, and no
# text follows if `final`.
SearchFunction = Callable[[str, int, bool], SearchStep]

NO_MATCHES: tuple[TextMatch, ...] = ()


class TextSearch(NamedTuple):
    """A search, and how far before its place it looks.

    A search in the ASCII view also carries its inner function, so that several searches can share
    one view.
    """

    search: SearchFunction
    reach: int
    search_ascii: SearchFunction | None = None


def has_long_word(text: str, begin: int, size: int) -> bool:
    """Return whether a word of at least `size` characters follows; ordinary prose has none."""
    return len(max(text[begin:].split(), key=len, default="")) >= size
