"""Find the hidden instructions in an answer, word for word or by a planted mark. Code: PROMPT_LEAK.

So many words in a row from the instructions are a leak, whatever their case, spacing and
punctuation. Limits: a translation, a summary or every second word is not found; phrases of
the instructions that any answer might use count as well, so they should be long enough.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.seeking import TextSearch, TextMatch, SearchStep
from demur.model.finding import Action

__all__ = ["canary_search", "instructions_search"]

# A longer word counts as several.
_WORD = re.compile(r"[^\W_]{1,32}")
# Words that are farther apart are not read as one text.
_MAX_WORD_GAP = 64
# A longer leak is reported in pieces.
_MAX_LEAK_WORDS = 80


class _LeakWord(NamedTuple):
    text: str
    start: int
    end: int


def instructions_search(instructions: str, words: int) -> TextSearch | None:
    """Return the search for `words` words in a row of the instructions; None if they have fewer."""
    known = [found[0].casefold() for found in _WORD.finditer(instructions)]
    rows = frozenset(tuple(known[at : at + words]) for at in range(len(known) - words + 1))
    if not rows:
        return None

    def seek(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        found = list(_split_words(text, begin))
        last = found[-1].end if found else begin
        # The last word may continue in the next piece, unless a wide gap follows it.
        usable = len(found) - (0 if final or last < len(text) else 1)
        closed = final or len(text) - last > _MAX_WORD_GAP
        seen: list[TextMatch] = []
        at = 0
        while at + words <= usable:
            size = _count_leaked_words(found, at, usable, rows, words)
            if size and not closed and at + size == usable and size < _MAX_LEAK_WORDS:
                return SearchStep(tuple(seen), found[at].start)
            if size:
                seen.append(
                    _leak_match(found[at].start, found[at + size - 1].end, size, len(known))
                )
            at += max(size, 1)
        held = found[at].start if at < len(found) and not closed else len(text)
        return SearchStep(tuple(seen), held)

    return TextSearch(seek, reach=0)


def _split_words(text: str, begin: int) -> Iterator[_LeakWord]:
    for match in _WORD.finditer(text, begin):
        yield _LeakWord(match[0].casefold(), match.start(), match.end())


def _count_leaked_words(
    found: list[_LeakWord], position: int, usable: int, rows: frozenset[tuple[str, ...]], words: int
) -> int:
    """Return how many words from this position stand in the instructions; 0 if too few."""
    size = 0
    for first in range(position, min(usable - words + 1, position + _MAX_LEAK_WORDS - words + 1)):
        row = found[first : first + words]
        if tuple(word.text for word in row) not in rows or not _are_close(row):
            break
        size = first - position + words
    return size


def _are_close(row: list[_LeakWord]) -> bool:
    return all(after.start - before.end <= _MAX_WORD_GAP for before, after in pairwise(row))


def _leak_match(start: int, end: int, size: int, total: int) -> TextMatch:
    detail = f"{size} words in a row of the system's instructions"
    evidence = {"overlap": round(min(1.0, size / total), 3)}
    return TextMatch(start, end, ReasonCode.PROMPT_LEAK, Action.BLOCK, detail, evidence)


def canary_search(mark: str) -> TextSearch:
    """Return the search for a mark that was planted in the instructions and nowhere else."""

    def seek(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        seen: list[TextMatch] = []
        place = text.find(mark, begin)
        while place >= 0:
            begin = place + len(mark)
            detail = "a mark planted in the system's instructions"
            seen.append(TextMatch(place, begin, ReasonCode.PROMPT_LEAK, Action.BLOCK, detail, {}))
            place = text.find(mark, begin)
        return SearchStep(
            tuple(seen), len(text) if final else max(begin, len(text) - len(mark) + 1)
        )

    return TextSearch(seek, reach=0)
