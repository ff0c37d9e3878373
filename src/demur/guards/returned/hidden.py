"""Find the parts of a document that a reader does not see, and the model does.

Comments and hidden elements of HTML, the texts that stand in for pictures, comments of
Markdown, and characters without a shape. Time grows with the length of the text alone.

Limits: style sheets are not read, so text that only they hide counts as seen; so does text
in the colour of its background, other than white.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["HiddenPart", "find_hidden_parts", "find_invisible_runs"]

# A longer element is a part of the page, not hidden text.
_MAX_ELEMENT = 4_000
_ELEMENT = re.compile(
    r"<([a-z][a-z0-9]{0,15})\b[^<>]{0,600}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}0(?![.\d]*[1-9])|opacity\s{0,3}:\s{0,3}0(?![.\d]*[1-9])"
    r"|(?<!-)color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?|transparent)\b|aria-hidden\s{0,3}=\s{0,3}[\"']?true"
    r"|\shidden(?=[\s>=]))[^<>]{0,600}>",
    re.IGNORECASE,
)
_STAND_IN = re.compile(
    r"""\b(?:alt|title|aria-label|content|placeholder)\s{0,3}=\s{0,3}(?:"([^"<>]{12,2000})"|'([^'<>]{12,2000})')"""
    r"|!\[([^\[\]]{12,1000})\]\("
    r"|\[//\]:\s{0,3}#\s{0,3}[(\"']([^\n]{4,2000})",
    re.IGNORECASE,
)
# Tag characters spell out an invisible text, unless they belong to a flag; overrides change
# the direction of writing; the rest has no width.
_TAGS = re.compile(
    "(?<!\U0001f3f4)(?<![\U000e0020-\U000e007f])[\U000e0001\U000e0020-\U000e007f]{2,}"
)
_OVERRIDES = re.compile("[\u202d\u202e]")
_WIDTHLESS = re.compile("[\u200b\u2060-\u2064\ufeff]{4,}")


class HiddenPart(NamedTuple):
    """`text[start:end]`, and the kind of place that hides it."""

    kind: str
    start: int
    end: int


def find_hidden_parts(text: str) -> Iterator[HiddenPart]:
    """Yield the parts that a reader of the document does not see."""
    if "<" in text:
        yield from _find_comments(text)
        for element in _ELEMENT.finditer(text):
            closed = text.find(f"</{element[1]}", element.end(), element.end() + _MAX_ELEMENT)
            end = closed if closed >= 0 else min(len(text), element.end() + _MAX_ELEMENT)
            yield HiddenPart("element", element.end(), end)
    for found in _STAND_IN.finditer(text):
        group = found.lastindex or 0
        yield HiddenPart("stand-in", found.start(group), found.end(group))


def find_invisible_runs(text: str) -> Iterator[HiddenPart]:
    """Yield runs of invisible characters that ordinary writing does not have."""
    if text.isascii():
        return
    for kind, sought in (("tags", _TAGS), ("direction", _OVERRIDES), ("widthless", _WIDTHLESS)):
        for found in sought.finditer(text):
            yield HiddenPart(kind, found.start(), found.end())


def _find_comments(text: str) -> Iterator[HiddenPart]:
    start = text.find("<!--")
    while start >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            yield HiddenPart("comment", start + 4, len(text))
            return
        yield HiddenPart("comment", start + 4, end)
        start = text.find("<!--", end + 3)
