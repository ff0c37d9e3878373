"""Text in Markdown that an agent reads and a person does not see."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.guards.skill.sighting import Sighting
from demur.model.finding import Action

__all__ = ["see_hidden"]

_OPEN, _CLOSE = "<!--", "-->"
_STYLED = re.compile(
    r"<(?P<tag>[a-z]{1,20})\b[^>]{0,200}style\s*=\s*[\"'][^\"']{0,200}"
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])"
    r"|color\s*:\s*(?:white|#fff(?:fff)?|transparent)\b)"
    r"[^\"']{0,200}[\"'][^>]{0,200}>(?P<text>.{0,4000}?)</(?P=tag)\s*>",
    re.IGNORECASE | re.DOTALL,
)
# Words that address the agent.
_ADDRESSED = re.compile(
    r"\b(?:ai|assistant|agent|claude|chatgpt|gpt|copilot|gemini|language model|llm)\b"
    r"(?:[^.\n]{0,60}\b(?:must|should|always|never|do not|don't|ignore|please)\b|\s*:)"
    r"|\byou (?:must|should always|are now)\b",
    re.IGNORECASE,
)
_WORTH_SHOWING = 20


class _Hidden(NamedTuple):
    start: int
    end: int
    # The text that a style hides; empty for a comment.
    styled: str


def see_hidden(text: str, orders: Sequence[Sighting]) -> Iterator[Sighting]:
    """Yield `orders`, with a block for each hidden one, and other hidden texts."""
    hidden = sorted({*_comments(text), *_styled(text)})
    starts = [one.start for one in hidden]
    ends = [0]
    for one in hidden:
        ends.append(max(ends[-1], one.end))
    for seen in orders:
        inside = seen.end <= ends[bisect_right(starts, seen.start)]
        yield seen._replace(action=Action.BLOCK) if inside else seen
    told = sorted(seen.start for seen in orders)
    for one in hidden:
        place = bisect_left(told, one.start)
        if place == len(told) or told[place] >= one.end:
            yield from _other(text, one)


def _other(text: str, one: _Hidden) -> Iterator[Sighting]:
    if _ADDRESSED.search(text, one.start, one.end):
        yield Sighting("HIDDEN_TEXT", one.start, one.end, "hidden text that speaks to an agent")
    elif len(one.styled.strip()) > _WORTH_SHOWING:
        detail = "text that a style keeps from view"
        yield Sighting("HIDDEN_TEXT", one.start, one.end, detail, action=Action.WARN)


def _comments(text: str) -> Iterator[_Hidden]:
    start = text.find(_OPEN)
    while start >= 0:
        close = text.find(_CLOSE, start)
        # An open comment hides the rest of the file.
        end = len(text) if close < 0 else close + len(_CLOSE)
        yield _Hidden(start, end, "")
        start = text.find(_OPEN, end)


def _styled(text: str) -> Iterator[_Hidden]:
    for found in _STYLED.finditer(text):
        yield _Hidden(found.start(), found.end(), found["text"])
