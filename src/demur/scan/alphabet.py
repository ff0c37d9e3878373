r"""One character in its folded form, as ASCII bytes wherever a word can be made of it.

Folded text is lower case, so the upper case letters are free: a letter outside ASCII is
written with them, one of `A-F` and then some of `G-Z`. So every letter of every script is a
word character to any engine, `\b` stands at the edges of words in all of them, and a pattern
can never match from the middle of a letter.
"""

import unicodedata
from bisect import bisect_right

from demur.scan.lookalikes import LOOKALIKES

__all__ = ["FOLD_TABLE", "fold_character"]

_LEADS = "ABCDEF"
_TRAILS = "GHIJKLMNOPQRSTUVWXYZ"
_BASE = len(_TRAILS)
# Two trails after one of the first leads; above that, the last lead and four trails.
_SHORT = (len(_LEADS) - 1) * _BASE**2
_LONG = _BASE**4
# No character from here on has a folded form, except the invisible tags.
_OPAQUE = 0x30000
_TAGS = range(0xE0000, 0xE1000)
# Unassigned, private use, surrogates.
_UNKNOWN = frozenset({"Cn", "Co", "Cs"})
_BEYOND = 0x10000
# Marks that change how a letter looks, not which letter it is.
_MARKS = (
    (0x0300, 0x036F),
    (0x0483, 0x0489),
    (0x0591, 0x05BD),
    (0x064B, 0x065F),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)
# Invisible, although Unicode lists them as letters, marks or symbols.
_INVISIBLE = (
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0000, 0xE0FFF),
)
_MARK_EDGES = [edge for first, last in _MARKS for edge in (first, last + 1)]
_INVISIBLE_EDGES = [edge for first, last in _INVISIBLE for edge in (first, last + 1)]


class _FoldTable(dict[int, str]):
    """The folded form by code point, computed on first use; a table for `str.translate`.

    Each form is a text of single bytes. Unassigned code points are not cached: there are a
    million of them, and untrusted text must not fill the memory.
    """

    def __missing__(self, point: int) -> str:
        if point >= _OPAQUE and point not in _TAGS:
            return chr(point).encode().decode("latin-1")
        character = chr(point)
        folded = fold_character(character)
        if point < _BEYOND or unicodedata.category(character) not in _UNKNOWN or point in _TAGS:
            self[point] = folded
        return folded


def fold_character(character: str) -> str:
    """Return the folded form of one character: nothing, a space, or a text of single bytes."""
    if character.isspace():
        return " "
    if _is_in_ranges(character, _INVISIBLE_EDGES):
        return ""
    if character in LOOKALIKES:
        return LOOKALIKES[character]
    plain = unicodedata.normalize("NFKD", character).casefold()
    if plain == character:
        return _fold_unit(character)
    return "".join(map(_fold_unit, unicodedata.normalize("NFKD", plain)))


def _is_in_ranges(character: str, edges: list[int]) -> bool:
    """Return whether a character is in one of the ranges given by their edges."""
    return bisect_right(edges, ord(character)) % 2 == 1


def _fold_unit(character: str) -> str:
    category = unicodedata.category(character)
    unseen = _is_in_ranges(character, _MARK_EDGES) or _is_in_ranges(character, _INVISIBLE_EDGES)
    if unseen or category in {"Cc", "Cf"}:
        return " " if character.isspace() else ""
    if character.isascii():
        return character
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return LOOKALIKES.get(character) or _encode_other(character, category)


def _encode_other(character: str, category: str) -> str:
    """Return the form of a character without an ASCII counterpart."""
    if category[0] in "LMN" and ord(character) < _LONG:
        return _word_form(ord(character))
    return character.encode("utf-8", "surrogatepass").decode("latin-1")


def _word_form(point: int) -> str:
    if point < _SHORT:
        lead, rest = divmod(point, _BASE**2)
        return _LEADS[lead] + _trail_digits(rest, 2)
    return _LEADS[-1] + _trail_digits(point, 4)


def _trail_digits(number: int, count: int) -> str:
    digits = []
    for _ in range(count):
        number, digit = divmod(number, _BASE)
        digits.append(_TRAILS[digit])
    return "".join(reversed(digits))


FOLD_TABLE = _FoldTable()
