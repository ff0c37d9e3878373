"""Other readings of a text: what is encoded in it, decoded in its place.

A cheap look at the folded text, one pass for all encodings, says which decoders may pay, so
plain prose costs next to nothing. What was decoded is looked at once more, and no deeper. A
view is never longer than the text, and there are a few at most.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from demur.scan.database import Database
from demur.scan.encodings import DECODERS, leet, rot13
from demur.scan.fold import Folded, fold
from demur.scan.pattern import parse_pattern
from demur.scan.view import Part, View, patched

__all__ = ["DEEPEST", "Reading", "readings"]

DEEPEST = 2

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
_LAST = frozenset({"leet", "spaced"})
_WHOLE = frozenset({"rot13", "reversed"})
_KINDS = tuple(_TELLTALE)
_LOOK = Database([parse_pattern(pattern) for pattern in _TELLTALE.values()], once=True)


class Reading(NamedTuple):
    """A view of a text, folded for matching."""

    view: View
    folded: Folded


def readings(text: str, folded: Folded) -> Iterator[Reading]:
    """Yield the decoded readings of `text`, each with a map back to the original."""
    yield from _readings(text, folded, None, DEEPEST)


def _readings(text: str, folded: Folded, parent: View | None, depth: int) -> Iterator[Reading]:
    found = _LOOK.survey(folded.data).candidates
    if not found and not folded.hidden:
        return
    kinds = {_KINDS[index] for index in found}
    if "base64" in kinds:
        kinds.add("hex")
    if folded.hidden:
        kinds.add("smuggled")
    for view in _views(text, kinds, parent):
        reading = Reading(view, fold(view.text))
        yield reading
        if depth > 1 and any(part.via not in _LAST for part in view.parts):
            yield from _readings(view.text, reading.folded, view, depth - 1)


def _views(text: str, kinds: set[str], parent: View | None) -> Iterator[View]:
    chosen = [decoder(text) for kind, decoder in DECODERS.items() if kind in kinds]
    if chosen and (view := patched(text, chain(*chosen), parent)):
        yield view
    if "leet" in kinds and "1" in text and (view := patched(text, leet(text, "l"), parent)):
        yield view
    if parent is not None and any(part.via in _WHOLE for part in parent.parts):
        return
    if "rot13" in kinds:
        yield _whole(rot13(text), "rot13", parent)
    if "reversed" in kinds:
        yield _whole(text[::-1], "reversed", parent)


def _whole(read: str, via: str, parent: View | None) -> View:
    size = len(read)
    return View(read, (Part(0, size, 0, size, via, backwards=via == "reversed"),), parent)
