"""A text as it reads after decoding, and where each part of it stands in the original."""

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import NamedTuple

__all__ = ["ViewPart", "TextPatch", "DecodedView", "apply_patches"]

_first = itemgetter(0)
_start = attrgetter("start")
_end = attrgetter("end")


class TextPatch(NamedTuple):
    """`text[first:last]` reads as `replacement`, `encoding_chain` this encoding."""

    first: int
    last: int
    replacement: str
    via: str


class ViewPart(NamedTuple):
    """`view[start:end]` was decoded from `text[first:last]`, `encoding_chain` this encoding."""

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
