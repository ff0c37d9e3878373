"""Other readings of a text: what is encoded in it, decoded in its place.

A cheap look at the folded text, one pass for all encodings, says which decoders may pay, so
plain prose costs next to nothing. What was decoded is looked at once more, and no deeper. A
view is never longer than the text, and there are a few at most.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from demur.scan.database import PatternDatabase
from demur.scan.encodings import DECODERS, decode_leet, decode_rot13
from demur.scan.fold import FoldedText, fold_text
from demur.scan.pattern import parse_pattern
from demur.scan.view import ViewPart, DecodedView, apply_patches

__all__ = ["MAX_DECODE_DEPTH", "DecodedReading", "decode_readings"]

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
_FINAL_ENCODINGS = frozenset({"leet", "spaced"})
_WHOLE_TEXT_ENCODINGS = frozenset({"rot13", "reversed"})
_KINDS = tuple(_TELLTALE)
_TELLTALE_DATABASE = PatternDatabase(
    [parse_pattern(pattern) for pattern in _TELLTALE.values()], presence_only=True
)


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
    kinds = {_KINDS[index] for index in found}
    if "base64" in kinds:
        kinds.add("hex")
    if folded.hidden:
        kinds.add("smuggled")
    for view in _decode_views(text, kinds, parent):
        reading = DecodedReading(view, fold_text(view.text))
        yield reading
        if depth > 1 and any(part.via not in _FINAL_ENCODINGS for part in view.parts):
            yield from _decode_level(view.text, reading.folded, view, depth - 1)


def _decode_views(text: str, kinds: set[str], parent: DecodedView | None) -> Iterator[DecodedView]:
    chosen = [decoder(text) for kind, decoder in DECODERS.items() if kind in kinds]
    if chosen and (view := apply_patches(text, chain(*chosen), parent)):
        yield view
    if (
        "leet" in kinds
        and "1" in text
        and (view := apply_patches(text, decode_leet(text, "l"), parent))
    ):
        yield view
    if parent is not None and any(part.via in _WHOLE_TEXT_ENCODINGS for part in parent.parts):
        return
    if "rot13" in kinds:
        yield _whole_view(decode_rot13(text), "rot13", parent)
    if "reversed" in kinds:
        yield _whole_view(text[::-1], "reversed", parent)


def _whole_view(read: str, via: str, parent: DecodedView | None) -> DecodedView:
    size = len(read)
    return DecodedView(
        read, (ViewPart(0, size, 0, size, via, backwards=via == "reversed"),), parent
    )
