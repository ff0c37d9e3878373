"""A text made ready for its marks: folded, bounded, and cut into sentences.

Spans must point into the text as it was given, so folding keeps the number of characters
wherever it can, and remembers their places where it cannot.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.model.finding import Span

__all__ = ["MAX_LINT_LENGTH", "TextSentence", "LintText", "fold_accents", "prepare_text"]

# A refusal is a few sentences; text after this many characters is not read.
MAX_LINT_LENGTH = 20_000

_INVISIBLE = dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF])
_ACCENT_TABLE: dict[int, str] = {
    **{code: unicodedata.normalize("NFD", chr(code))[0] for code in range(0xC0, 0x250)},
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
    **dict.fromkeys([0x2018, 0x2019, 0x2BC, 0xB4], "'"),
    **dict.fromkeys([0xA0, 0x2007, 0x202F, 0x3000], " "),
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    ord("ß"): "s",
}
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`"
    r'|"[^"\n]{2,600}"|“[^”\n]{2,600}”|„[^“”\n]{2,600}[“”]|«[^»\n]{2,600}»|「[^」\n]{2,600}」',
    re.DOTALL,
)
_BULLET = r"[ \t]*(?:[-*\u2022\u2013\u00b7]|\d{1,2}[.)])[ \t]"
# Languages without spaces have none after a full stop either.
_BREAK = re.compile(
    r"""[.!?…]+["')\]*_”»]*(?=\s|\Z|[\u3040-\u9fff]) | 。+[」』")]* | :(?=[*_ \t]*\n)
      | \n[ \t]*\n\s*"""
    rf" | \n(?={_BULLET})",
    re.VERBOSE,
)
_ITEM = re.compile(_BULLET)
_ABBREVIATED = re.compile(
    r"(?:\b(?:[a-hj-z]|e\.g|i\.e|etc|dr|mr|mrs|ms|vs|approx|bzw|ca|evtl|ggf|usw|vgl"
    r"|z\.b|d\.h|p\.ej|ej|ud|uds|sr|sra|cf|mme|env)|^\s*\d{1,2})\Z",
    re.IGNORECASE | re.MULTILINE,
)


class TextSentence(NamedTuple):
    """A sentence or list item, by its place in the folded text."""

    start: int
    end: int
    item: bool


class LintText(NamedTuple):
    """A folded text, its sentences and quotations, and a map to the original."""

    folded: str
    sentences: tuple[TextSentence, ...]
    quoted: tuple[tuple[int, int], ...]
    # The original place of each folded character; None if nothing moved.
    places: Sequence[int] | None

    def original_span(self, start: int, end: int) -> Span:
        """Return the span in the original text."""
        if self.places is None:
            return Span(start=start, end=end)
        return Span(start=self.places[start], end=self.places[end])

    def is_quoted(self, place: int) -> bool:
        """Return whether the text at `place` is somebody else's words."""
        at = bisect_right(self.quoted, (place, len(self.folded))) - 1
        return at >= 0 and self.quoted[at][0] <= place < self.quoted[at][1]


def fold_accents(text: str) -> str:
    """Return `text` without accents and typographic variants, character by character."""
    return text.translate(_ACCENT_TABLE)


def prepare_text(text: str) -> LintText:
    """Return the text prepared for the linter; a long one is cut."""
    composed, places = _compose_accents(text[:MAX_LINT_LENGTH])
    folded = fold_accents(composed)
    return LintText(
        folded=folded,
        sentences=tuple(_split_sentences(folded)),
        quoted=tuple(_find_quoted(composed)),
        places=places,
    )


def _compose_accents(text: str) -> tuple[str, Sequence[int] | None]:
    """Return `text` with its accents joined to their letters, and where each character was."""
    if unicodedata.is_normalized("NFC", text) and text.translate(_INVISIBLE) == text:
        return text, None
    composed: list[str] = []
    places: list[int] = []
    for start, end in _iter_clusters(text):
        joined = unicodedata.normalize("NFC", text[start:end].translate(_INVISIBLE))
        composed.append(joined)
        places.extend([start] * len(joined))
    return "".join(composed), [*places, len(text)]


def _iter_clusters(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(text)):
        if not unicodedata.combining(text[at]):
            yield start, at
            start = at
    yield start, len(text)


def _find_quoted(text: str) -> Iterator[tuple[int, int]]:
    for found in _QUOTED.finditer(text):
        # Quotation marks around nearly the whole text are no quotation.
        if len(found[0]) < 0.8 * len(text):
            yield found.span()


def _split_sentences(text: str) -> Iterator[TextSentence]:
    start = 0
    for found in _BREAK.finditer(text):
        if not _continues_sentence(text, start, found):
            yield from _trim_sentence(text, start, found.end())
            start = found.end()
    yield from _trim_sentence(text, start, len(text))


def _continues_sentence(text: str, start: int, found: re.Match[str]) -> bool:
    """Return whether a full stop belongs to an abbreviation or a number, not to a sentence."""
    if found[0] != ".":
        return False
    before = text[max(start, found.start() - 12) : found.start()]
    after = text[found.end() : found.end() + 8].lstrip(" \t\n")
    return after[:1].islower() or _ABBREVIATED.search(before) is not None


def _trim_sentence(text: str, start: int, end: int) -> Iterator[TextSentence]:
    inside = text[start:end].strip()
    if any(character.isalnum() for character in inside):
        first = start + text[start:end].index(inside)
        yield TextSentence(first, first + len(inside), _ITEM.match(inside + " ") is not None)
