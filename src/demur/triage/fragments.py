"""Choose what to search for, so that no line with a legacy phrase is missed.

Each phrase is stood for by a fragment of it: nine characters or more of plain ASCII that
no JSON writer escapes. Several phrases share one where they can. Search engines look at
the end of a literal first, so fragments that end in rare letters are preferred.

What casefolding makes of other characters (`ß` is ss, the Kelvin sign is k, the long s is
s) is searched for apart, with the letters that would have to stand beside it.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from heapq import heapify, heappop, heappush

__all__ = ["choose_fragments", "escape_expressions", "fold_expressions", "folding_characters"]

_SAFE_TEXT = re.compile(r"[a-z0-9 _.,:-]+")
_FRAGMENT_LENGTH = 9
_TAIL_LENGTH = 5
# Frequencies of characters in English, in thousandths; all others are rare.
_FREQUENCY = {
    letter: number / 1000
    for number, letters in {
        150: " ",
        127: "e",
        85: "ta",
        68: "oins",
        60: "hr",
        42: "dl",
        28: "cu",
        22: "mwfgyp",
        12: "bv",
        8: "k",
        30: "0123456789",
        2: "jxqz",
    }.items()
    for letter in letters
}
_RARITIES = (0.005,) * _TAIL_LENGTH
# The cost of one more literal, besides chance matches of its tail.
_LITERAL_COST = 1e-5
_LAST_CASED = 0x20000
_NOT_ASCII = rb"\x80-\xff"


def choose_fragments(
    phrases: Iterable[str], avoid: Iterable[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return fragments so that every phrase contains one, each with the phrases that it represents.

    Fragments that occur in `avoid`, the texts that fill a log of refusals, are chosen last. Search
    engines check the end of a literal first, so fragments that end in rare letters are preferred.
    """
    common = _text_windows("\n".join(avoid).casefold())
    parts = {phrase: _fragment_candidates(phrase) for phrase in sorted(set(phrases))}
    holders: dict[str, set[str]] = {}
    for phrase, held in parts.items():
        for part in held:
            holders.setdefault(part, set()).add(phrase)
    # A part's worth only falls, so the first part whose worth is unchanged is the best.
    costs = {
        part: _LITERAL_COST + (1 if part in common else _match_chance(part)) for part in holders
    }
    queue = [(-len(held) / costs[part], part) for part, held in holders.items()]
    heapify(queue)
    chosen: dict[str, tuple[str, ...]] = {}
    while parts:
        worth, part = heappop(queue)
        group = set(holders[part])
        if -worth > (now := len(group) / costs[part]):
            if group:
                heappush(queue, (-now, part))
            continue
        chosen[_extend_fragment(part, group)] = tuple(group)
        for phrase in group:
            for other in parts.pop(phrase):
                holders[other].discard(phrase)
    return chosen


def _fragment_candidates(phrase: str) -> set[str]:
    """Return the candidate fragments of a phrase, or the whole phrase if none is plain enough."""
    return set().union(*map(_text_windows, _SAFE_TEXT.findall(phrase))) or {phrase}


def _text_windows(text: str) -> set[str]:
    return {text[at : at + _FRAGMENT_LENGTH] for at in range(len(text) - _FRAGMENT_LENGTH + 1)}


def _match_chance(part: str) -> float:
    return math.prod(map(_FREQUENCY.get, part[-_TAIL_LENGTH:], _RARITIES))


def _extend_fragment(part: str, group: Iterable[str]) -> str:
    """Extend the part by the characters before it that all phrases of its group share."""
    while True:
        before = {phrase[max(phrase.find(part) - 1, 0) : phrase.find(part)] for phrase in group}
        character = before.pop()
        if before or not _SAFE_TEXT.fullmatch(character):
            return part
        part = character + part


@cache
def _folding_table() -> Mapping[str, str]:
    """Return every non-ASCII character that casefolding changes, with its result."""
    characters = map(chr, range(0x80, _LAST_CASED))
    return {each: folded for each in characters if (folded := each.casefold()) != each}


def folding_characters(fragments: Collection[str]) -> tuple[str, ...]:
    """Return the non-ASCII characters that casefolding may turn into part of a fragment."""
    letters = {letter for fragment in fragments for letter in fragment}
    return tuple(
        each for each, folded in _folding_table().items() if not letters.isdisjoint(folded)
    )


def fold_expressions(fragments: Collection[str]) -> tuple[bytes, ...]:
    """Return expressions for those characters next to the letters of the fragments."""
    found = []
    for character in folding_characters(fragments):
        folded = _folding_table()[character]
        beside = {place for fragment in fragments for place in _overlap_contexts(folded, fragment)}
        if beside:
            found.append(_context_expression(character, beside))
    return tuple(found)


def _overlap_contexts(folded: str, fragment: str) -> Iterable[tuple[str, str]]:
    """Yield the characters before and after, for each way the two can overlap."""
    for at in range(1 - len(folded), len(fragment)):
        inside = fragment[max(at, 0) : at + len(folded)]
        if inside == folded[max(-at, 0) : max(-at, 0) + len(inside)]:
            before = fragment[at - 1] if at > 0 else ""
            yield before, fragment[at + len(folded) : at + len(folded) + 1]


def _context_expression(character: str, beside: set[tuple[str, str]]) -> bytes:
    afters: dict[str, set[str]] = {}
    for before, after in beside:
        afters.setdefault(before, set()).add(after)
    raw = re.escape(character.encode())
    ways = (
        _byte_class({before}) + raw + _byte_class(following)
        for before, following in sorted(afters.items())
    )
    return b"(?:" + b"|".join(ways) + b")"


def _byte_class(characters: set[str]) -> bytes:
    """Return a byte class for the characters; empty if any byte is possible."""
    if "" in characters:
        return b""
    # Any non-ASCII byte may fold into one of them as well.
    plain = sorted({case for each in characters if each.isascii() for case in (each, each.upper())})
    return b"[" + b"".join(re.escape(each.encode()) for each in plain) + _NOT_ASCII + b"]"


def escape_expressions(fragments: Collection[str]) -> tuple[bytes, ...]:
    r"""Return expressions for JSON escapes (`\u017f`) that may hide part of a fragment."""
    letters = {letter for fragment in fragments for letter in fragment}
    hidden = {letter for letter in letters if not letter.isascii()}
    hidden.update(folding_characters(fragments))
    return (rb"\\u00[2-7]", *(_escape_expression(each) for each in sorted(hidden)))


def _escape_expression(character: str) -> bytes:
    # A surrogate pair is found by its first half.
    unit = int.from_bytes(character.encode("utf-16-be")[:2], "big")
    digits = "".join(f"[{digit}{digit.upper()}]" for digit in f"{unit:04x}")
    return rb"\\u" + digits.encode()
