"""Text in Markdown that an agent reads and a person does not see."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.guards.skill.sighting import SkillHit
from demur.model.finding import Action

__all__ = ["find_hidden_text"]

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
_MIN_STYLED_LENGTH = 20


class _HiddenText(NamedTuple):
    start: int
    end: int
    # The text that a style hides; empty for a comment.
    styled: str


def find_hidden_text(text: str, orders: Sequence[SkillHit]) -> Iterator[SkillHit]:
    """Yield `orders`, with a block for each hidden one, and other hidden texts."""
    hidden = sorted({*_find_comments(text), *_find_styled(text)})
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
            yield from _check_hidden(text, one)


def _check_hidden(text: str, hidden: _HiddenText) -> Iterator[SkillHit]:
    if _ADDRESSED.search(text, hidden.start, hidden.end):
        yield SkillHit(
            "HIDDEN_TEXT", hidden.start, hidden.end, "hidden text that speaks to an agent"
        )
    elif len(hidden.styled.strip()) > _MIN_STYLED_LENGTH:
        detail = "text that a style keeps from view"
        yield SkillHit("HIDDEN_TEXT", hidden.start, hidden.end, detail, action=Action.WARN)


def _find_comments(text: str) -> Iterator[_HiddenText]:
    start = text.find(_OPEN)
    while start >= 0:
        close = text.find(_CLOSE, start)
        # An open comment hides the rest of the file.
        end = len(text) if close < 0 else close + len(_CLOSE)
        yield _HiddenText(start, end, "")
        start = text.find(_OPEN, end)


def _find_styled(text: str) -> Iterator[_HiddenText]:
    for found in _STYLED.finditer(text):
        yield _HiddenText(found.start(), found.end(), found["text"])
