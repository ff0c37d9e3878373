"""Fold a text that comes in pieces, and find long runs of characters that cannot be seen.

White space, invisible characters and accents on nothing are folded away, so any number of them
could keep parts of a sentence apart. Two things are carried over from piece to piece: a run of
white space, and capitals that are read by the letters next to them.
"""

import re
from bisect import bisect_right
from collections import deque
from copy import copy
from typing import NamedTuple

from demur.text.fold import GREEK_CAPITALS, FoldedText, fold_text


class _FoldedPiece(NamedTuple):
    """A folded piece, and where its bytes and characters stand in the whole."""

    folded: FoldedText
    skipped: int
    byte: int
    character: int


class IncrementalFold:
    """The folded bytes of a text so far, with a map back to its characters."""

    def __init__(self, start: int) -> None:
        self._pieces: deque[_FoldedPiece] = deque()
        self._before = ""
        self._waiting = ""
        # The end of the characters that were folded.
        self.end = start
        self.data = b""
        self.base = 0

    def copy(self) -> "IncrementalFold":
        """Return the same text, to be continued in another way."""
        other = copy(self)
        vars(other)["_pieces"] = self._pieces.copy()
        return other

    @property
    def length(self) -> int:
        """How many bytes there are so far."""
        return self.base + len(self.data)

    def feed(self, text: str, *, final: bool) -> None:
        """Fold the next piece of text."""
        text = self._waiting + text
        self._waiting = "" if final or text[-1:] not in GREEK_CAPITALS else text[-1:]
        if self._waiting:
            text = text[:-1]
        if not text:
            return
        folded = fold_text(self._before + text)
        skipped = len(self._before)
        data = folded.data[skipped:]
        if data[:1] == b" " and self.data[-1:] == b" ":
            skipped += 1
            data = data[1:]
        character = self.end - len(self._before)
        self._pieces.append(_FoldedPiece(folded, skipped, self.length, character))
        self.end += len(text)
        self.data += data
        self._before = text[-1] if text[-1].isascii() and text[-1].isalpha() else ""

    def original_place(self, byte: int) -> int:
        """Return the place of the character that a byte came from; past the end, the end."""
        if byte >= self.length:
            return self.end
        pieces = self._pieces
        piece = pieces[bisect_right(pieces, byte, key=lambda each: each.byte) - 1]
        inside = byte - piece.byte + piece.skipped
        return piece.character + piece.folded.original_place(inside)

    def drop_before(self, byte: int) -> None:
        """Drop the bytes before this one, and their map to characters."""
        if byte > self.base:
            self.data = self.data[byte - self.base :]
            self.base = byte
            while len(self._pieces) > 1 and self._pieces[1].byte <= byte:
                self._pieces.popleft()


MAX_PADDING = 256

# All characters that fold to nothing or to a space; a few more do no harm.
_RANGES = (
    r"\s\x00-\x1f\x7f-\x9f\xa8\xad\xaf\xb8\u02d8-\u02dd\u0300-\u036f\u0384\u0385\u0483-\u0489"
    r"\u0591-\u05bd\u0600-\u0605\u061c\u064b-\u065f\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u1fbd\u1fbf-\u1fc1\u1fcd-\u1fcf"
    r"\u1fdd-\u1fdf\u1fed\u1fee\u1ffd\u1ffe\u200b-\u200f\u202a-\u202e\u203e\u2060-\u206f"
    r"\u20d0-\u20ff\u2800\u3164\ufc5e-\ufc62\ufe00-\ufe0f\ufe20-\ufe2f\ufe49-\ufe4c\ufe70-\ufe7f"
    r"\ufeff\uffa0\uffe3\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
PADDING = re.compile(f"[{_RANGES}]*")


def find_padding(text: str, begin: int) -> int | None:
    """Return where the first run begins that is too long, from `begin` on.

    Such a run covers at least one of every `MAX_PADDING + 1` places, so only these are checked.
    """
    step = MAX_PADDING + 1
    for place in range(begin + MAX_PADDING, len(text), step):
        start = find_padding_start(text, begin, place + 1)
        run = PADDING.match(text, start, start + step)
        if run is not None and run.end() == start + step:
            return start
    return None


def find_padding_start(text: str, begin: int, end: int) -> int:
    """Return where the padding begins that ends at `end`; `end` if there is none."""
    while end > begin and PADDING.fullmatch(text[end - 1]):
        end -= 1
    return end
