"""What every search in model text has in common, whether the text is whole or still coming.

A search starts at some place of a window and says what it saw, and from which place on it
cannot tell yet because text is missing. Whatever it decides depends on the text alone, a
little of it before the place (`reach`) and none beyond what it has seen; so it makes no
difference in how many pieces a text came.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from demur.model.finding import Action

__all__ = ["NOTHING", "Seek", "Seeker", "Seen", "Sought", "has_long_word"]


class Seen(NamedTuple):
    """One thing that was seen, by its place in the window."""

    start: int
    end: int
    code: str
    action: Action
    detail: str
    evidence: Mapping[str, Any]


class Sought(NamedTuple):
    """What was seen, in the order of its places, and where the search has to go on."""

    seen: tuple[Seen, ...]
    undecided: int


# `seek(text, begin, final)`: nothing that starts before `begin` is looked for again, and
# after `final` there is no more text. The result is undecided at its end at the latest.
Seek = Callable[[str, int, bool], Sought]

NOTHING: tuple[Seen, ...] = ()


class Seeker(NamedTuple):
    """A search, and how far before its place it looks.

    One that is made in what the text reads as (`demur.guards.secrets.ascii_view`) also says how
    it goes on in there, so that several searches can share one reading.
    """

    seek: Seek
    reach: int
    in_ascii: Seek | None = None


def has_long_word(text: str, begin: int, size: int) -> bool:
    """Return whether a word of that many characters follows: where none does, prose is cheap."""
    return len(max(text[begin:].split(), key=len, default="")) >= size
