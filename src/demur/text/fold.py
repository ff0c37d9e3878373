"""Fold text for matching: one form for all spellings, with a map back to the original.

Folding removes compatibility forms, case, accents, look-alike letters and invisible characters,
and turns each run of white space into one space. It works character by character, so equivalent
Unicode forms fold alike, whatever stands around them. Only some Greek capitals are read by
their shape where an ASCII letter stands beside them.

Folded text is lower case, so upper-case letters are free: a letter outside ASCII is written
with them, one of `A-F` and then some of `G-Z`. Every letter of every script is thus a word
character to any engine, and a pattern can never match from the middle of a letter.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice
from operator import itemgetter

# ruff: noqa: RUF001 - ambiguous letters are what this table is about


# The ASCII letter, then its look-alikes. Lower case only: text is casefolded before.
_ROWS = (files("demur.text") / "lookalikes.txt").read_text("utf-8").split("\n")[:-1]

LOOKALIKES = {letter: row[0] for row in reversed(_ROWS) for letter in row[2:]}

# Ligatures, and boxed letters that compatibility decomposition leaves as they are.
LOOKALIKES |= {"æ": "ae", "œ": "oe", "ð": "d", "ĳ": "ij", "…": "..."}
for _first in (0x1F150, 0x1F170, 0x1F1E6):
    LOOKALIKES |= {chr(_first + place): chr(ord("a") + place) for place in range(26)}

# Greek capitals whose small letter has another shape: among ASCII letters, the shape counts.
GREEK_CAPITALS = {"Ν": "n", "Η": "h", "Υ": "y", "Μ": "m", "Ζ": "z"}


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
    point = ord(character)
    if category[0] not in "LMN" or point >= _LONG:
        return character.encode("utf-8", "surrogatepass").decode("latin-1")
    if point >= _SHORT:
        return _LEADS[-1] + _trail_digits(point, 4)
    return _LEADS[point // _BASE**2] + _trail_digits(point % _BASE**2, 2)


def _trail_digits(number: int, count: int) -> str:
    places = reversed(range(count))
    return "".join(_TRAILS[number // _BASE**place % _BASE] for place in places)


FOLD_TABLE = _FoldTable()


_ASCII = bytes(range(128))
_SPACES = b" \t\n\v\f\r\x1c\x1d\x1e\x1f"
_CONTROLS = bytes(byte for byte in (*range(32), 127) if byte not in _SPACES)
_TABLE = bytes(32 if byte in _SPACES else byte for byte in range(256)).lower()
_SPACE_RUN = re.compile(b"  +")
_FEW = 16
# The map to the original is computed for wide pieces, and for small pieces within one.
_WIDE = 8_192
_PIECE = 256
_HIDDEN = frozenset(
    chr(point)
    for first, last in (
        (0x200B, 0x200D),
        (0x2060, 0x2060),
        (0xFE00, 0xFE0F),
        (0xFEFF, 0xFEFF),
        (0xE0020, 0xE007E),
        (0xE0100, 0xE01EF),
    )
    for point in range(first, last + 1)
)
_offset = itemgetter(0)
_CAPITAL_SET = frozenset(GREEK_CAPITALS)
_CAPITAL = re.compile("(?<=[A-Za-z])[{0}]|[{0}](?=[A-Za-z])".format("".join(GREEK_CAPITALS)))


# Most Latin-1 characters fold to one byte or none; longer forms are replaced afterwards, and
# none of these forms holds the byte of another.
_LATIN = tuple(FOLD_TABLE[point].encode("latin-1") for point in range(256))
_LATIN_LONG = {number: form for number, form in enumerate(_LATIN) if len(form) > 1}
_LATIN_GONE = bytes(number for number, form in enumerate(_LATIN) if not form)
_LATIN_TABLE = bytes(form[0] if len(form) == 1 else code for code, form in enumerate(_LATIN))
_NOT_LONG = bytes(number for number in range(256) if number not in _LATIN_LONG)

_Offset = tuple[int, bool]


class FoldedText:
    """Folded bytes of a text, and where in the text they come from."""

    __slots__ = ("_small", "_text", "_wide", "data", "hidden")

    def __init__(self, text: str, data: bytes, *, hidden: bool = False) -> None:
        self.data = data
        # Whether the text holds invisible characters that can carry a message.
        self.hidden = hidden
        self._text = text
        self._wide: list[_Offset] | None = None
        self._small: dict[int, list[_Offset]] = {}

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original that the bytes from `start` to `end` came from."""
        # INVARIANT: what is folded away widens no span, and nothing is mapped outside the text.
        if end <= start:
            place = self.original_place(start)
            return place, place
        return self.original_place(start), self.original_place(end - 1) + 1

    def original_place(self, byte: int) -> int:
        """Return the place of the character that the byte came from; past the end, the end."""
        if byte >= len(self.data):
            return len(self._text)
        if len(self.data) == len(self._text) and self._text.isascii():
            return byte
        if self._wide is None:
            self._wide = self._measure_pieces(0, len(self._text), _WIDE, (0, False))
        wide = bisect_right(self._wide, byte, key=_offset) - 1
        first = wide * _WIDE
        if wide not in self._small:
            last = min(first + _WIDE, len(self._text))
            self._small[wide] = self._measure_pieces(first, last, _PIECE, self._wide[wide])
        small = bisect_right(self._small[wide], byte, key=_offset) - 1
        offset, space = self._small[wide][small]
        places = self._iter_origins(first + small * _PIECE, space=space)
        return next(islice(places, byte - offset, None))

    def _measure_pieces(self, first: int, last: int, step: int, before: _Offset) -> list[_Offset]:
        """Return for each piece of the text where its bytes begin, and whether after a space."""
        pieces = []
        size, space = before
        for start in range(first, last, step):
            pieces.append((size, space))
            folded = _squeeze_spaces(_fold_bytes(self._text[start : min(start + step, last)]))
            size += len(folded) - (space and folded.startswith(b" "))
            space = folded.endswith(b" ") if folded else space
        return pieces

    def _iter_origins(self, first: int, *, space: bool) -> Iterator[int]:
        """Yield the place of the character that wrote each byte, from a place of the text on."""
        for place in range(first, len(self._text)):
            for character in FOLD_TABLE[ord(self._text[place])]:
                if character != " " or not space:
                    yield place
                space = character == " "


def fold_text(text: str) -> FoldedText:
    """Return `text` in the form that rules are matched against."""
    if text.isascii():
        return FoldedText(text, _squeeze_spaces(text.encode().translate(_TABLE, _CONTROLS)))
    latin = _fold_latin(text)
    if latin is not None:
        return FoldedText(text, _squeeze_spaces(latin))
    others = _non_ascii_characters(text)
    if not _CAPITAL_SET.isdisjoint(others):
        text = _CAPITAL.sub(lambda found: GREEK_CAPITALS[found[0]], text)
    hidden = not _HIDDEN.isdisjoint(others)
    return FoldedText(text, _squeeze_spaces(_fold_wide(text, others)), hidden=hidden)


def _fold_bytes(text: str) -> bytes:
    """Return the folded form of a text, with runs of spaces as they come."""
    if text.isascii():
        return text.encode().translate(_TABLE, _CONTROLS)
    latin = _fold_latin(text)
    return _fold_wide(text, _non_ascii_characters(text)) if latin is None else latin


def _fold_latin(text: str) -> bytes | None:
    """Return the folded form of a text that is all Latin-1; None for another."""
    try:
        data = text.encode("latin-1").translate(_LATIN_TABLE, _LATIN_GONE)
    except UnicodeEncodeError:
        return None
    for byte in set(data.translate(None, _NOT_LONG)):
        data = data.replace(bytes([byte]), _LATIN_LONG[byte])
    return data


def _non_ascii_characters(text: str) -> set[str]:
    """Return the characters of a text that are not ASCII."""
    raw = text.encode("utf-8", "surrogatepass")
    return set(raw.translate(None, _ASCII).decode("utf-8", "surrogatepass"))


def _fold_wide(text: str, others: set[str]) -> bytes:
    """Return the folded form of a text in which no other characters than these are not ASCII."""
    raw = text.encode("utf-8", "surrogatepass")
    # If other letters are few, replacing each is faster than translating every character.
    if len(raw) - len(text) > len(text) // _FEW:
        return text.translate(FOLD_TABLE).encode("latin-1")
    data = raw.translate(_TABLE, _CONTROLS)
    # No character's bytes stand inside those of another, so the order makes no difference.
    for character in others:
        before = character.encode("utf-8", "surrogatepass")
        data = data.replace(before, FOLD_TABLE[ord(character)].encode("latin-1"))
    return data


def _squeeze_spaces(data: bytes) -> bytes:
    """Return bytes with each run of spaces as one space."""
    return _SPACE_RUN.sub(b" ", data) if b"  " in data else data
