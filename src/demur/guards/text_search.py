"""The interface of all searches in model text, and the ASCII view that they search in.

A search starts at some place of a window. It returns its matches, and the place from which on
it cannot tell yet because text is missing. A result depends only on the text, on a little of it
before the place (`reach`), and on nothing after it; so the number of pieces makes no
difference.

The ASCII view reads other decimal digits, compatibility letters, dashes and spaces as their
plain counterparts and leaves out invisible characters, so that a number cannot hide in other
digits. It keeps case, because credentials depend on it; so `demur.text.fold` does not serve
here. Limits: look-alike letters of other scripts stay as they are. Of a long run of invisible
characters the rest counts as a gap, so that little text needs to be looked back at.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from demur.model.finding import Action


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


# How many invisible characters in a row are left out.
_MAX_HIDDEN = 8
_GAP = "\0"
# Up to this many different characters are replaced one by one; more are translated at once.
_MAX_REPLACEMENTS = 256
# No character from here on reads as ASCII.
_OPAQUE = 0x20000
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
_HIDDEN_LOW = _HIDDEN.partition("\U000e0000")[0]
_SIGNS = f"{_HIDDEN_LOW}{_SPACES}{_DIGITS}{_FORMS}\u2010-\u2015\u2212"
# All characters below U+10000 that may read as ASCII or as nothing.
_OTHERS = frozenset(
    chr(point)
    for first, last in re.findall("(.)(?:-(.))?", _SIGNS, re.DOTALL)
    for point in range(ord(first), ord(last or first) + 1)
)
_ASTRAL = "\U00010000"


class AsciiView(NamedTuple):
    """A text read as ASCII, and where its stretches begin in the view and in the text.

    Without stretches, places are the same in both. A stretch ends where the next begins.
    """

    text: str
    starts: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()

    def view_place(self, place: int) -> int:
        """Return the place in the view for a place in the text."""
        if not self.starts:
            return place
        stretch = bisect_right(self.origins, place) - 1
        if stretch < 0:
            return 0
        last = self.starts[stretch + 1] if stretch + 1 < len(self.starts) else len(self.text)
        return min(self.starts[stretch] + place - self.origins[stretch], last)

    def text_place(self, place: int, size: int) -> int:
        """Return the place in a text of this size for a place in the view, up to its end."""
        if not self.starts:
            return place
        if place >= len(self.text):
            return size
        stretch = bisect_right(self.starts, place) - 1
        return self.origins[stretch] + place - self.starts[stretch]

    def text_end(self, place: int) -> int:
        """Return the end in the text for an end in the view."""
        return self.text_place(place - 1, 0) + 1


class _AsciiTable(dict[int, str]):
    """The ASCII form of a character by its code point, computed on first use.

    Unassigned code points are not cached: untrusted text must not fill the memory.
    """

    def __missing__(self, point: int) -> str:
        character = chr(point)
        if point >= _OPAQUE:
            return character
        plain = _to_ascii(character)
        if unicodedata.category(character) != "Cn":
            self[point] = plain
        return plain


_ASCII_TABLE = _AsciiTable()


def make_ascii_view(text: str) -> AsciiView:
    """Return the ASCII view of a text; for most texts it is the text itself."""
    if text.isascii():
        return AsciiView(text)
    characters = set(text)
    if characters.isdisjoint(_OTHERS) and max(characters) < _ASTRAL:
        return AsciiView(text)
    plain = _replace_characters(text, characters)
    pieces: list[str] = []
    origins: list[int] = []
    done = 0
    for run in _HIDDEN_RUN.finditer(plain):
        start, end = run.span()
        if done < start:
            pieces.append(plain[done:start])
            origins.append(done)
        gap = start + _MAX_HIDDEN
        if gap < end:
            pieces.append(_GAP * (end - gap))
            origins.append(gap)
        done = end
    if not done:
        return AsciiView(plain)
    pieces.append(plain[done:])
    origins.append(done)
    starts = accumulate(map(len, pieces), initial=0)
    return AsciiView("".join(pieces), tuple(starts)[: len(pieces)], tuple(origins))


def _replace_characters(text: str, characters: set[str]) -> str:
    """Return the text with its characters replaced by their ASCII forms."""
    if len(characters) > _MAX_REPLACEMENTS:
        return text.translate(_ASCII_TABLE)
    for character in characters:
        plain = _ASCII_TABLE[ord(character)]
        if plain != character:
            text = text.replace(character, plain)
    return text


def _to_ascii(character: str) -> str:
    """Return the ASCII form of a character, or the character itself."""
    known = character in _OTHERS or character >= _ASTRAL
    if not known or _HIDDEN_RUN.match(character):
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


def search_as_ascii(search: TextSearch) -> TextSearch:
    """Return the search run in the ASCII view of a text; places are those of the text."""
    inner: SearchFunction = search.search

    def search_text(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        return search_view(make_ascii_view(text), inner, text, begin, final=final)

    return TextSearch(search_text, search.reach * (_MAX_HIDDEN + 1), inner)


def search_view(
    view: AsciiView, search_function: SearchFunction, text: str, begin: int, *, final: bool
) -> SearchStep:
    """Run a search in the view of a text; places are those of the text."""
    if view.text is text:
        return search_function(text, begin, final)
    matches, undecided = search_function(view.text, view.view_place(begin), final)
    size = len(text)
    found = tuple(
        each._replace(start=view.text_place(each.start, size), end=view.text_end(each.end))
        for each in matches
    )
    return SearchStep(found, max(begin, view.text_place(undecided, size)))
