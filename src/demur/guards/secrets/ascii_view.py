"""Read a text as the ASCII it stands for, so that a number cannot hide in other digits.

Full-width and other decimal digits, letters of compatibility forms, dashes and spaces of all
kinds are read as their plain counterparts, and what nobody sees is left out. Case stays as it
is, because credentials depend on it; so the folding of rules (`demur.scan.fold`) does not serve.

Limits: letters of other scripts that only look alike are left as they are. Of a longer run of
invisible characters the rest counts as a gap, so that little text needs to be looked back at.
"""

import re
import unicodedata
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from demur.guards.text_rules.seeking import Seek, Seeker, Sought

__all__ = ["AsciiView", "ascii_view", "read_as_ascii"]

# How many invisible characters in a row are left out.
_MOST_HIDDEN = 8
_GAP = "\0"
_REMEMBERED = 4096
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_HIDDEN_RUN = re.compile(f"[{_HIDDEN}]+")
_DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-")
_SPACES = "\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# The digit zero of each script; nine more follow.
_ZEROS = (
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20"
    "\u1040\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0"
    "\ua9f0\uaa50\uabf0"
)
_DIGITS = "".join(f"{zero}-{chr(ord(zero) + 9)}" for zero in _ZEROS)
_FORMS = "\xaa\xb2\xb3\xb9\xba\u2070-\u209c\u2100-\u214f\u2460-\u24ff\ufe50-\ufe6f\uff01-\uff5e"
# All that may read as ASCII, in two classes: one of many ranges is quick only below U+10000.
_HIDDEN_LOW = _HIDDEN.partition("\U000e0000")[0]
_OTHER = re.compile(f"[{_HIDDEN_LOW}{_SPACES}{_DIGITS}{_FORMS}\u2010-\u2015\u2212]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class AsciiView(NamedTuple):
    """What a text reads as, and the place each character of that has in the text.

    Without places, all are where they were.
    """

    text: str
    places: list[int] | None = None

    def begin(self, place: int) -> int:
        """Return where reading goes on that stood at a place of the text."""
        return place if self.places is None else bisect_left(self.places, place)

    def origin(self, place: int, size: int) -> int:
        """Return where in a text of that size a character stands; past the end, the end."""
        if self.places is None:
            return place
        return self.places[place] if place < len(self.places) else size

    def end(self, place: int) -> int:
        """Return where in the text something ends that ends here."""
        return place if self.places is None else self.places[place - 1] + 1


def ascii_view(text: str) -> AsciiView:
    """Return how a text reads; most texts read as they stand, and cost next to nothing."""
    if text.isascii() or not (_OTHER.search(text) or _ASTRAL.search(text)):
        return AsciiView(text)
    plain = _ASTRAL.sub(_read, _OTHER.sub(_read, text))
    if not _HIDDEN_RUN.search(plain):
        return AsciiView(plain)
    pieces: list[str] = []
    places: list[int] = []
    done = 0
    for run in _HIDDEN_RUN.finditer(plain):
        pieces.append(plain[done : run.start()])
        places += range(done, run.start())
        gap = run.start() + _MOST_HIDDEN
        if gap < run.end():
            pieces.append(_GAP * (run.end() - gap))
            places += range(gap, run.end())
        done = run.end()
    pieces.append(plain[done:])
    places += range(done, len(plain))
    return AsciiView("".join(pieces), places)


def _read(found: re.Match[str]) -> str:
    return _plain(found[0])


@lru_cache(_REMEMBERED)
def _plain(character: str) -> str:
    """Return the one character of ASCII that a character stands for, or itself."""
    if _HIDDEN_RUN.match(character):
        return character
    if character in _DASHES:
        return _DASHES[character]
    if character.isspace():
        return " "
    read = unicodedata.normalize("NFKC", character)
    if len(read) == 1 and read.isascii():
        return read
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def read_as_ascii(seeker: Seeker) -> Seeker:
    """Return the search, made in what a text reads as; places are those of the text."""
    inner: Seek = seeker.seek

    def seek(text: str, begin: int, final: bool) -> Sought:  # noqa: FBT001 - the signature of all searches
        view = ascii_view(text)
        if view.text is text:
            return inner(text, begin, final)
        seen, undecided = inner(view.text, view.begin(begin), final)
        size = len(text)
        found = tuple(
            each._replace(start=view.origin(each.start, size), end=view.end(each.end))
            for each in seen
        )
        return Sought(found, max(begin, view.origin(undecided, size)))

    return Seeker(seek, seeker.reach * (_MOST_HIDDEN + 1))
