"""Fold text that comes in pieces, to the same bytes as the whole text would be folded to.

Folding looks at one character at a time, with two exceptions that are carried over from
piece to piece: white space becomes one space however long it is, and a few capitals are
read by the letters beside them.
"""

from bisect import bisect_right
from collections import deque

from demur.scan.fold import FoldedText, fold_text
from demur.scan.lookalikes import GREEK_CAPITALS

__all__ = ["IncrementalFold"]


class _FoldedPiece:
    """A folded piece, and where its bytes and characters stand in the whole."""

    __slots__ = ("byte", "character", "folded", "skipped")

    def __init__(self, folded: FoldedText, skipped: int, byte: int, character: int) -> None:
        self.folded = folded
        self.skipped = skipped
        self.byte = byte
        self.character = character


class IncrementalFold:
    """The folded bytes of a text so far, with a map back to its characters."""

    def __init__(self, start: int) -> None:
        self._pieces: deque[_FoldedPiece] = deque()
        self._before = ""
        self._waiting = ""
        self._fed = start
        self.data = b""
        self.base = 0

    @property
    def length(self) -> int:
        """How many bytes there are so far."""
        return self.base + len(self.data)

    @property
    def end(self) -> int:
        """The end of the characters that were folded."""
        return self._fed

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
        self._pieces.append(
            _FoldedPiece(folded, skipped, self.length, self._fed - len(self._before))
        )
        self._fed += len(text)
        self.data += data
        self._before = text[-1] if text[-1].isascii() and text[-1].isalpha() else ""

    def original_place(self, byte: int) -> int:
        """Return the place of the character that a byte came from; past the end, the end."""
        if byte >= self.length:
            return self._fed
        pieces = self._pieces
        piece = pieces[bisect_right(pieces, byte, key=lambda each: each.byte) - 1]
        inside = byte - piece.byte + piece.skipped
        return piece.character + piece.folded.original_span(inside, inside + 1)[0]

    def drop_before(self, byte: int) -> None:
        """Drop the bytes before this one, and their map to characters."""
        if byte > self.base:
            self.data = self.data[byte - self.base :]
            self.base = byte
            while len(self._pieces) > 1 and self._pieces[1].byte <= byte:
                self._pieces.popleft()
