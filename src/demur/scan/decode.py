"""Decode what is encoded in a text, in place, with a map back to the original.

One pass over the folded text says which decoders may find something, so plain prose costs next
to nothing. Decoded text is decoded once more and no deeper. A view is never longer than the
text, and there are few of them. Each decoder reads the text once, without backtracking, and
yields only results that read as text.
"""

import binascii
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from demur.scan.database import PatternDatabase
from demur.scan.pattern import parse_pattern
from demur.text.fold import FoldedText, fold_text

_first = itemgetter(0)
_start = attrgetter("start")
_end = attrgetter("end")


class TextPatch(NamedTuple):
    """`text[first:last]` reads as `replacement`, `via` this encoding."""

    first: int
    last: int
    replacement: str
    via: str


class ViewPart(NamedTuple):
    """`view[start:end]` was decoded from `text[first:last]`, `via` this encoding."""

    start: int
    end: int
    first: int
    last: int
    via: str
    backwards: bool = False

    def original_span(self, place: int) -> tuple[int, int]:
        """Return the original characters of the one at `place`: one, or the whole part."""
        if self.end - self.start != self.last - self.first:
            return self.first, self.last
        into = place - self.start
        first = self.last - 1 - into if self.backwards else self.first + into
        return first, first + 1


class DecodedView(NamedTuple):
    """Text with decoded parts in place; the text between them is unchanged."""

    text: str
    parts: tuple[ViewPart, ...]
    # The view that this was decoded from, if any.
    parent: "DecodedView | None" = None

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original text that `text[start:end]` came from."""
        first, last = self._parent_span(start, end)
        return self.parent.original_span(first, last) if self.parent else (first, last)

    def encoding_chain(self, start: int, end: int) -> str:
        """Return the encodings that `text[start:end]` came through, like `base64+hex`.

        Empty if this view decoded nothing there.
        """
        index = bisect_right(self.parts, start, key=_end)
        if index == len(self.parts) or self.parts[index].start >= end:
            return ""
        own = self.parts[index].via
        if not self.parent:
            return own
        above = self.parent.encoding_chain(*self._parent_span(start, end))
        return f"{above}+{own}" if above else own

    def _parent_span(self, start: int, end: int) -> tuple[int, int]:
        places = (*self._find_origin(start), *self._find_origin(end - 1))
        return min(places), max(places)

    def _find_origin(self, place: int) -> tuple[int, int]:
        """Return the characters, one level up, that the one at `place` came from."""
        index = bisect_right(self.parts, place, key=_start) - 1
        if index < 0:
            return place, place + 1
        part = self.parts[index]
        if place < part.end:
            return part.original_span(place)
        first = place - part.end + part.last
        return first, first + 1


def apply_patches(
    text: str, patches: Iterable[TextPatch], parent: DecodedView | None = None
) -> DecodedView | None:
    """Return `text` with the patches in place; None if there are none.

    Of overlapping patches the one that begins first is used; of those with one start, the
    first given.
    """
    pieces: list[str] = []
    parts: list[ViewPart] = []
    done = length = 0
    for first, last, replacement, via in sorted(patches, key=_first):
        if first < done:
            continue
        pieces += (text[done:first], replacement)
        start = length + first - done
        length = start + len(replacement)
        parts.append(ViewPart(start, length, first, last, via))
        done = last
    if not parts:
        return None
    return DecodedView("".join([*pieces, text[done:]]), tuple(parts), parent)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*+")
_HEX = re.compile(
    r"(?<![0-9A-Za-z])(?:0x|\\x)?[0-9A-Fa-f]{2}(?:[ :,]?(?:0x|\\x)?[0-9A-Fa-f]{2}){5,}+"
)
# A faster check: each match of `_HEX` holds a match of this.
_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]{2}(?:[ :,]?(?:0x|\\x)?[0-9A-Fa-f]{2}){5}")
# These begin with a fixed sign, so the engine skips other text quickly.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,31}[0-9]{0,2});")
_ESCAPE = re.compile(
    r"\\(?:u[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*|x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*"
    r"|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8})"
)
# Each letter is checked at once to stand alone, which avoids backtracking.
_SPACED = re.compile(
    r"[A-Za-z](?<![A-Za-z][A-Za-z])([ ._*|/,+~-])[A-Za-z](?![A-Za-z])"
    r"(?:\1[A-Za-z](?![A-Za-z]))++"
)
# Skips words of letters, and takes the next word with anything else in it.
_LEET = re.compile(r"(?:[A-Za-z]*+[^A-Za-z0-9@$!|]++)*+(?:(?P<word>[A-Za-z0-9@$!|]++)|\Z)")
_LEET_TABLES = {one: str.maketrans("0134578@$!|", f"o{one}eastbasil") for one in "il"}
_MIN_LEET = 3
_SMUGGLED = re.compile(
    "(?P<tags>[\U000e0020-\U000e007e]{2,})"
    "|(?P<selectors>[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,})"
    "|(?P<zero_width>[\u200b\u200c\u200d\u2060\ufeff]{16,})"
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r")
_NOT_HEX = re.compile(r"0x|\\x|[ :,]")
_NOT_BASE64 = str.maketrans("-_", "+/", "\r\n")
_MIN_DECODED = 6
# The beginning is decoded first, to see whether a long part is text.
_GLANCE = 256


_ReadMatch = Callable[[re.Match[str]], str | None]
_Decoder = Callable[[str], Iterator[TextPatch]]


def _decode_text(raw: bytes) -> str:
    """Return the bytes as text; empty if they are no text."""
    if len(raw) < _MIN_DECODED:
        return ""
    # If every other byte is zero, it is UTF-16, which PowerShell accepts.
    wide = raw[1::2].count(0) > len(raw) // 3
    try:
        text = raw.decode("utf-16-le" if wide else "utf-8")
    except UnicodeDecodeError:
        return ""
    if text.isprintable():
        return text
    printable = sum(map(str.isprintable, text)) + sum(map(text.count, "\n\t\r"))
    return text if printable >= 0.95 * len(text) else ""


def _decode_base64(text: str) -> Iterator[TextPatch]:
    for found in _BASE64.finditer(text):
        plain = found[0].translate(_NOT_BASE64)
        raw = _decode_unpadded(plain[:_GLANCE])
        if not _begins_as_text(raw):
            continue
        if decoded := _decode_text(raw if len(plain) <= _GLANCE else _decode_unpadded(plain)):
            end = found.end()
            end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
            yield TextPatch(found.start(), end, decoded, "base64")


def _decode_unpadded(digits: str) -> bytes:
    """Return the bytes of base64 digits without padding; an incomplete last one is dropped."""
    whole = digits[: len(digits) - (len(digits) % 4 == 1)]
    return binascii.a2b_base64(whole + "=" * (-len(whole) % 4))


def _begins_as_text(raw: bytes) -> bool:
    """Return whether the bytes may be the beginning of a text."""
    if raw[1::2].count(0) > len(raw) // 3:
        return True
    if len(raw) - len(raw.translate(None, _CONTROLS)) > len(raw) // 20:
        return False
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        # The last character may have been cut.
        return error.start >= len(raw) - 3
    return True


def _decode_hex(text: str) -> Iterator[TextPatch]:
    if not _HEX_DIGITS.search(text):
        return
    for found in _HEX.finditer(text):
        if decoded := _decode_text(binascii.unhexlify(_NOT_HEX.sub("", found[0]))):
            yield TextPatch(found.start(), found.end(), decoded, "hex")


def _decode_each(pattern: re.Pattern[str], read: _ReadMatch, via: str) -> _Decoder:
    """Return a decoder that reads each match of a pattern by itself."""

    def decode(text: str) -> Iterator[TextPatch]:
        for found in pattern.finditer(text):
            if (decoded := read(found)) is not None:
                yield TextPatch(found.start(), found.end(), decoded, via)

    return decode


def _read_percent(found: re.Match[str]) -> str:
    return binascii.unhexlify(found[0].replace("%", "")).decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _read_entity(entity: str) -> str | None:
    decoded = html.unescape(entity)
    return decoded if decoded != entity else None


def _read_escape(found: re.Match[str]) -> str | None:
    run = found[0]
    if run[1] == "x":
        return bytes.fromhex(run.replace("\\x", "")).decode("latin-1")
    if run[1:3] != "u{" and run[1] == "u":
        return bytes.fromhex(run.replace("\\u", "")).decode("utf-16-be", "replace")
    point = int(run[2:].strip("{}"), 16)
    if point > 0x10FFFF:
        return None
    return chr(point).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def decode_leet(text: str, one: str = "i") -> Iterator[TextPatch]:
    """Yield the words in which digits and signs stand for letters, with `one` for a 1 inside."""
    table = _LEET_TABLES[one]
    for found in _LEET.finditer(text):
        whole = found["word"]
        if whole is None or len(whole) < _MIN_LEET:
            continue
        # At the end of a word these are punctuation.
        word = whole.rstrip("!|")
        if word.isdigit() or word.isalpha():
            continue
        doubled = word.replace("11", "ll")
        ended = doubled[:-1] + "l" if doubled.endswith("1") else doubled
        read = (
            ("i" + ended[1:] if ended.startswith("1") else ended) if "1" in word else word
        ).translate(table)
        if read.isalpha():
            start = found.start("word")
            yield TextPatch(start, start + len(word), read, "leet")


def _decode_smuggled(text: str) -> Iterator[TextPatch]:
    for found in _SMUGGLED.finditer(text):
        via = str(found.lastgroup)
        if decoded := _SMUGGLED_DECODERS[via](found[0]):
            # Spaces keep it apart from the letters around it.
            yield TextPatch(found.start(), found.end(), f" {decoded} ", via)


def _decode_selectors(run: str) -> str:
    points = map(ord, run)
    return _decode_text(bytes(p - 0xFE00 if p < 0xFE10 else p - 0xE0100 + 16 for p in points))


def _decode_zero_width(run: str) -> str:
    """Read two kinds of characters as bits, the first kind as 0 or as 1."""
    sorts = sorted(set(run))
    if len(sorts) != 2:
        return ""
    size = len(run) // 8
    readings = (run.replace(sorts[0], zero).replace(sorts[1], one) for zero, one in ("01", "10"))
    raws = (int(bits[: size * 8], 2).to_bytes(size, "big") for bits in readings)
    return next(filter(None, map(_decode_text, raws)), "")


def decode_rot13(text: str) -> str:
    """Return `text` with each letter 13 places on."""
    # On bytes, for speed: in UTF-8, ASCII bytes occur only as ASCII letters.
    return text.encode("utf-8", "surrogatepass").translate(_ROT13).decode("utf-8", "surrogatepass")


_SMUGGLED_DECODERS: dict[str, Callable[[str], str]] = {
    "tags": lambda run: "".join(chr(ord(character) - 0xE0000) for character in run),
    "selectors": _decode_selectors,
    "zero_width": _decode_zero_width,
}
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_TURNED = _LETTERS[13:] + _LETTERS[:13]
_ROT13 = bytes.maketrans(_LETTERS + _LETTERS.upper(), _TURNED + _TURNED.upper())

# Markup as Markdown and HTML write it. A sign that may stand inside a word is dropped, a sign that
# separates words reads as a space, and the text keeps its length.
_DROPPED = "\0"
_MARKS = str.maketrans({**dict.fromkeys("*`~", _DROPPED), **dict.fromkeys("|#>", " ")})
_TAG = re.compile(
    r"</?(?:(b|i|u|s|em|strong|span|mark|code|small|font|sub|sup|a)|br|p|div|li|ul|ol|td|th|tr"
    r"|h[1-6])\b[^<>]{0,120}>",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[([^\[\]\n]{1,80})\]\([^()\s]{0,300}\)")
# Only items of a word or two are read as one sentence: longer ones are sentences of their own.
_SHORT_ITEM = re.compile(
    r"^[ \t>]*(?:[-+\u2022\u2023\u25aa]|[0-9]{1,3}[.)])[ \t]+"
    r"(?=\S{1,24}(?:[ \t]\S{1,24})?[ \t]*$)",
    re.MULTILINE,
)
_EDGE_UNDERSCORE = re.compile(r"(?<!\S)_++(?=\S)|(?<!_)_++(?=[\s.,;:!?)]|$)")
# Words joined by underscores in a sentence; names in code stand beside other signs.
_JOINED_WORDS = re.compile(
    r"(?<!\S)[^\W\d_]+(?:['-][^\W\d_]+)*+(?:[,;:.!?]?_[^\W\d_]+(?:['-][^\W\d_]+)*+){2,}+"
    r"(?=[.!?,;]?(?:\s|$))"
)


def strip_markup(text: str) -> str:
    """Return `text`, in the same length, with marks of Markdown and HTML blanked."""
    # INVARIANT: marks around words hide nothing that the words say.
    if "<" in text:
        text = _TAG.sub(lambda tag: (_DROPPED if tag[1] else " ") * len(tag[0]), text)
    if "](" in text:
        text = _LINK.sub(_strip_link, text)
    if "_" in text:
        text = _EDGE_UNDERSCORE.sub(lambda run: _DROPPED * len(run[0]), text)
        text = _JOINED_WORDS.sub(lambda words: words[0].replace("_", " "), text)
    text = _SHORT_ITEM.sub(lambda item: " " * len(item[0]), text)
    return text.translate(_MARKS)


def _strip_link(link: re.Match[str]) -> str:
    return (_DROPPED + link[1]).ljust(len(link[0]), _DROPPED)


# In order of precedence, where two decoders match the same text.
DECODERS: dict[str, _Decoder] = {
    "smuggled": _decode_smuggled,
    "escape": _decode_each(_ESCAPE, _read_escape, "escape"),
    "hex": _decode_hex,
    "base64": _decode_base64,
    "url": _decode_each(_PERCENT, _read_percent, "url"),
    "html": _decode_each(_ENTITY, lambda found: _read_entity(found[0]), "html"),
    "spaced": _decode_each(_SPACED, lambda found: found[0].replace(found[1], ""), "spaced"),
    "leet": decode_leet,
}


MAX_DECODE_DEPTH = 2

_TELLTALE = {
    "escape": r"\\u\{?[0-9a-f]{2}|\\x[0-9a-f]{2}",
    # With a separator between the bytes; ASCII bytes begin with a digit.
    "hex": r"[2-7][0-9a-f][ :,](0x)?[2-7][0-9a-f][ :,](0x)?[2-7][0-9a-f]",
    "base64": r"[a-z0-9+/]{20}",
    "url": r"%[0-9a-f]{2}",
    "html": r"&(#x?[0-9a-f]{2}|[a-z]{2,8};)",
    "spaced": r"\b[a-z][ ._*|/,+~\-][a-z][ ._*|/,+~\-][a-z]\b",
    "leet": r"[a-z][01345@$!|][a-z]|\b[01345@$][a-z]{3}",
    # A mark beside a word, two short items of a list, or words joined by underscores.
    "markup": (
        r"[*`~_|>\#] ?\w|\w[*`~_|]|\]\("
        r"|(-|\+|•|[0-9][.)]) [^ ]{1,80}( [^ ]{1,80})? (-|\+|•|[0-9]{1,3}[.)]) \w"
    ),
    # The name of the encoding, or encoded words: frequent ones, and those of instructions.
    "rot13": (
        r"\brot[ \-]?13\b|\bcaesar\b|\bcipher|\bdecipher"
        r"|\b(gur|naq|lbh|lbhe|guvf|gung|jvgu|sebz|cyrnfr|nyy|abg|jung|ubj|jevgr|znxr"
        r"|vtaber|cerivbhf|vafgehpgvbaf?|flfgrz|cebzcg|erirny|cnffjbeq)\b"
    ),
    "reversed": (
        r"\brevers(e|ed|ing)\b|\bbackwards?\b"
        r"|\b(eht|dna|uoy|ruoy|siht|htiw|morf|esaelp|lla|tahw|etirw"
        r"|erongi|suoiverp|s?noitcurtsni|metsys|tpmorp|laever|drowssap)\b"
    ),
}
# Encodings that hide no further one, and encodings of the whole text.
_FINAL_ENCODINGS = frozenset({"leet", "markup", "spaced"})
_WHOLE_TEXT_ENCODINGS = frozenset({"rot13", "reversed"})
_KINDS = tuple(_TELLTALE)
_TELLTALE_DATABASE = PatternDatabase(map(parse_pattern, _TELLTALE.values()), presence_only=True)


class DecodedReading(NamedTuple):
    """A view of a text, folded for matching."""

    view: DecodedView
    folded: FoldedText


def decode_readings(text: str, folded: FoldedText) -> Iterator[DecodedReading]:
    """Yield the decoded readings of `text`, each with a map back to the original."""
    yield from _decode_level(text, folded, None, MAX_DECODE_DEPTH)


def _decode_level(
    text: str, folded: FoldedText, parent: DecodedView | None, depth: int
) -> Iterator[DecodedReading]:
    found = _TELLTALE_DATABASE.find_candidates(folded.data).candidates
    if not found and not folded.hidden:
        return
    kinds = {_KINDS[index] for index in found} | ({"smuggled"} if folded.hidden else set())
    if "base64" in kinds:
        kinds.add("hex")
    for view in _decode_views(text, kinds, parent):
        reading = DecodedReading(view, fold_text(view.text))
        yield reading
        if depth > 1 and any(part.via not in _FINAL_ENCODINGS for part in view.parts):
            yield from _decode_level(view.text, reading.folded, view, depth - 1)


def _decode_views(text: str, kinds: set[str], parent: DecodedView | None) -> Iterator[DecodedView]:
    chosen = [decoder(text) for kind, decoder in DECODERS.items() if kind in kinds]
    if chosen and (view := apply_patches(text, chain(*chosen), parent)):
        yield view
    leet = decode_leet(text, "l") if "leet" in kinds and "1" in text else ()
    if view := apply_patches(text, leet, parent):
        yield view
    if "markup" in kinds and parent is None:
        yield _whole_view(strip_markup(text), "markup", None)
    if parent is not None and any(part.via in _WHOLE_TEXT_ENCODINGS for part in parent.parts):
        return
    if "rot13" in kinds:
        yield _whole_view(decode_rot13(text), "rot13", parent)
    if "reversed" in kinds:
        yield _whole_view(text[::-1], "reversed", parent)


def _whole_view(read: str, via: str, parent: DecodedView | None) -> DecodedView:
    part = ViewPart(0, len(read), 0, len(read), via, backwards=via == "reversed")
    return DecodedView(read, (part,), parent)
