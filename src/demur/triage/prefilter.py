"""Find where refusals may be, in one pass over many lines at once.

Each legacy phrase is represented by a fragment of it: nine characters or more of plain ASCII
that no JSON writer escapes. Phrases share fragments where they can. Characters that casefolding
turns into part of a fragment (`ß`, the Kelvin sign, the long s) are searched for separately.
The engines may report a different number of hits in a line, but never different lines.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from importlib import import_module
from itertools import chain
from os.path import commonprefix
from typing import Any, NamedTuple, Protocol

from demur.codes.refusal_line import REFUSAL_MARK
from demur.codes.registry import fold_phrase, holds_phrase
from demur.errors import MissingExtraError

_MARK_BYTES = REFUSAL_MARK.encode()
# Tags besides the indices of literals, larger than any of them.
_EXPRESSION_TAG = 1 << 20
_MARKER_TAG = _EXPRESSION_TAG + 1
_RUN_TAG = _EXPRESSION_TAG + 2
# A run of spaces and tabs counts as one space. JSON writes a tab as an escape.
_SPACE_RUNS = (b"  ", b"\t", rb"\t", rb"\u0009")


class FilterSearch(NamedTuple):
    """The literals (in any case) and expressions to search for, and whether markers and runs too.

    Runs of spaces are many in some logs, so only the first ones are reported.
    """

    literals: tuple[bytes, ...]
    expressions: tuple[bytes, ...] = ()
    marker: bool = False
    runs: bool = False


class FilterHits(NamedTuple):
    """The end offsets of markers and of other hits, each in ascending order.

    `literals` holds the index of the literal of each other hit, or a larger number if unknown.
    `runs` is not empty if there is a run of spaces or a tab.
    """

    markers: list[int]
    others: list[int]
    literals: list[int]
    runs: list[int]


class Prefilter(Protocol):
    """Finds the ends of hits. Do not share it between threads."""

    def __call__(self, data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        """Return the hits in `data[:end]`."""


def build_prefilter(search: FilterSearch, engine: str | None = None) -> Prefilter:
    """Return the fastest available prefilter, or the named one.

    Raises:
        MissingExtraError: The named engine is not installed.
    """
    for name in ENGINES if engine is None else (engine,):
        try:
            return ENGINES[name](search)
        except ImportError as error:
            missing = error
    problem = f"the search engine `{engine}` is not installed"
    raise MissingExtraError(problem, help="pip install 'demur[triage]'") from missing


def _filter_expressions(search: FilterSearch) -> list[bytes]:
    folded = (b"(?i:" + re.escape(literal) + b")" for literal in search.literals)
    return [*folded, *search.expressions]


def _sort_hits(hits: FilterHits) -> FilterHits:
    """Sort the hits; engines usually report them in order, but do not promise it."""
    if hits.others != sorted(hits.others):
        pairs = sorted(zip(hits.others, hits.literals, strict=True))
        hits.others[:] = [end for end, _ in pairs]
        hits.literals[:] = [literal for _, literal in pairs]
    hits.markers.sort()
    return hits


def _hyperscan(search: FilterSearch) -> Prefilter:
    hyperscan: Any = import_module("hyperscan")
    tags = [*range(len(search.literals)), *[_EXPRESSION_TAG] * len(search.expressions)]
    # Literals alone compile ten times as fast, and are found a little faster.
    literal = not search.expressions
    quote: Callable[[bytes], bytes] = bytes if literal else re.escape
    patterns = [*map(quote, search.literals), *search.expressions]
    flags = [hyperscan.HS_FLAG_CASELESS] * len(search.literals) + [0] * len(search.expressions)
    if search.marker:
        patterns.append(quote(_MARK_BYTES))
        tags.append(_MARKER_TAG)
        flags.append(0)
    if search.runs:
        patterns += map(quote, _SPACE_RUNS)
        tags += [_RUN_TAG] * len(_SPACE_RUNS)
        flags += [hyperscan.HS_FLAG_SINGLEMATCH] * len(_SPACE_RUNS)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=patterns, ids=tags, elements=len(tags), flags=flags, literal=literal
    )
    scratch = hyperscan.Scratch(database)

    def note(tag: int, _start: int, end: int, _flags: int, found: FilterHits) -> None:
        if tag == _MARKER_TAG:
            found.markers.append(end)
        elif tag == _RUN_TAG:
            found.runs.append(end)
        else:
            found.others.append(end)
            found.literals.append(tag)

    def find(data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        hits = FilterHits([], [], [], [])
        database.scan(memoryview(data)[:end], note, context=hits, scratch=scratch)
        return _sort_hits(hits)

    return find


def _re2(search: FilterSearch) -> Prefilter:
    re2: Any = import_module("re2")
    options = re2.Options()
    # Logs are not always UTF-8, and invalid bytes must not stop the search.
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 64 << 20
    either: Any = re2.compile(b"|".join(_filter_expressions(search)), options)
    marks = re.compile(_MARK_BYTES)
    spaces: Any = re2.compile(b"|".join(map(re.escape, _SPACE_RUNS)), options)

    def find(data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        whole = bytes(memoryview(data)[:end])
        markers = [found.end() for found in marks.finditer(whole)] if search.marker else []
        others = [found.end() for found in either.finditer(whole)]
        runs = [found.end()] if search.runs and (found := spaces.search(whole)) else []
        return FilterHits(markers, others, [_EXPRESSION_TAG] * len(others), runs)

    return find


ENGINES: dict[str, Callable[[FilterSearch], Prefilter]] = {"hyperscan": _hyperscan, "re2": _re2}


_SAFE_TEXT = re.compile(r"[a-z0-9 _.,:-]+")
_FRAGMENT_LENGTH, _TAIL_LENGTH = 9, 5
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
    # A phrase without a plain enough fragment is its own candidate.
    parts = {
        phrase: (set().union(*map(_text_windows, _SAFE_TEXT.findall(phrase))) or {phrase})
        for phrase in sorted(set(phrases))
    }
    holders: dict[str, set[str]] = {}
    for phrase, windows in parts.items():
        for part in windows:
            holders.setdefault(part, set()).add(phrase)
    # A part's worth only falls, so the first part whose worth is unchanged is the best.
    costs = {part: _LITERAL_COST + (1 if part in common else _chance(part)) for part in holders}
    queue = [(-len(held) / costs[part], part) for part, held in holders.items()]
    heapify(queue)
    chosen: dict[str, tuple[str, ...]] = {}
    while parts:
        worth, part = heappop(queue)
        held = holders[part]
        if -worth > (now := len(held) / costs[part]):
            if held:
                heappush(queue, (-now, part))
            continue
        group = set(held)
        chosen[_extend_fragment(part, group)] = tuple(group)
        for phrase in group:
            for other in parts.pop(phrase):
                holders[other].discard(phrase)
    return chosen


def _text_windows(text: str) -> set[str]:
    return {text[at : at + _FRAGMENT_LENGTH] for at in range(len(text) - _FRAGMENT_LENGTH + 1)}


def _chance(part: str) -> float:
    return math.prod(map(_FREQUENCY.get, part[-_TAIL_LENGTH:], _RARITIES))


def _extend_fragment(part: str, group: Iterable[str]) -> str:
    """Extend the part by the characters before it that all phrases of its group share."""
    # The first occurrence of the longer part is where that of the shorter one is.
    heads = [phrase[: phrase.find(part)][::-1] for phrase in group]
    shared = commonprefix(heads)  # noqa: RUF071 - these are no paths
    plain = _SAFE_TEXT.match(shared)
    return part if plain is None else plain[0][::-1] + part


@cache
def _folding_table() -> Mapping[str, str]:
    """Return every non-ASCII character that casefolding changes, with its result."""
    table: dict[str, str] = {}
    # 256 characters in UTF-32 at a time: most of these blocks have no case.
    block = bytearray(4 * 256)
    block[3::4] = bytes(range(256))
    for number in range(_LAST_CASED >> 8):
        block[1::4], block[2::4] = (bytes((part,)) * 256 for part in divmod(number, 256))
        characters = block.decode("utf-32-be", "surrogatepass")
        if characters.casefold() != characters:
            pairs = zip(characters, map(str.casefold, characters), strict=True)
            table.update(pair for pair in pairs if pair[0] != pair[1] and not pair[0].isascii())
    return table


def folding_characters(fragments: Collection[str]) -> tuple[str, ...]:
    """Return the non-ASCII characters that casefolding may turn into part of a fragment."""
    letters = {letter for fragment in fragments for letter in fragment}
    table = _folding_table().items()
    return tuple(each for each, folded in table if not letters.isdisjoint(folded))


def fold_expressions(fragments: Collection[str]) -> tuple[bytes, ...]:
    """Return expressions for those characters next to the letters of the fragments."""
    found = []
    for character in folding_characters(fragments):
        folded = _folding_table()[character]
        contexts = {place for fragment in fragments for place in _overlaps(folded, fragment)}
        if contexts:
            found.append(_context_expression(character, contexts))
    return tuple(found)


def _overlaps(folded: str, fragment: str) -> Iterable[tuple[str, str]]:
    """Yield the characters before and after, for each way the two can overlap."""
    for at in range(1 - len(folded), len(fragment)):
        inside = fragment[max(at, 0) : at + len(folded)]
        if inside == folded[max(-at, 0) : max(-at, 0) + len(inside)]:
            before = fragment[at - 1] if at > 0 else ""
            yield before, fragment[at + len(folded) : at + len(folded) + 1]


def _context_expression(character: str, contexts: set[tuple[str, str]]) -> bytes:
    afters: dict[str, set[str]] = {}
    for before, after in contexts:
        afters.setdefault(before, set()).add(after)
    raw = re.escape(character.encode())
    pairs = sorted(afters.items())
    ways = (_byte_class({before}) + raw + _byte_class(following) for before, following in pairs)
    return b"(?:" + b"|".join(ways) + b")"


def _byte_class(characters: set[str]) -> bytes:
    """Return a byte class for the characters; empty if any byte is possible."""
    # Before and after a space, a tab or the end of its escape may stand.
    if not characters.isdisjoint({"", " "}):
        return b""
    # Any non-ASCII byte may fold into one of them as well.
    plain = sorted({case for each in characters if each.isascii() for case in (each, each.upper())})
    return b"[" + b"".join(re.escape(each.encode()) for each in plain) + _NOT_ASCII + b"]"


_SPACES = rb"(?:[ \t]|\\+(?:t|u0009))+"


def spaced_expressions(fragments: Collection[str]) -> tuple[bytes, ...]:
    """Return expressions for the fragments with spaces, with runs in place of the spaces."""
    spaced = (re.escape(fragment.encode()) for fragment in fragments if " " in fragment)
    return tuple(b"(?i:" + each.replace(b"\\ ", _SPACES) + b")" for each in spaced)


def escape_expressions(fragments: Collection[str]) -> tuple[bytes, ...]:
    r"""Return expressions for JSON escapes (`\u017f`) that may hide part of a fragment."""
    letters = {letter for fragment in fragments for letter in fragment}
    hidden = {letter for letter in letters if not letter.isascii()}
    hidden.update(folding_characters(fragments))
    return (rb"\\u00[2-7]", *(_escape_expression(each) for each in sorted(hidden)))


def _escape_expression(character: str) -> bytes:
    # A surrogate pair is found by its first half.
    unit = int.from_bytes(character.encode("utf-16-be")[:2], "big")
    return rb"\\u" + "".join(f"[{digit}{digit.upper()}]" for digit in f"{unit:04x}").encode()


class PhraseTable:
    """The phrases behind each fragment, the winning ones first."""

    def __init__(self, phrases: Mapping[str, str], groups: Iterable[Iterable[str]]) -> None:
        ordered = sorted(phrases.items(), key=lambda item: (-len(item[0]), item[1], item[0]))
        rank = {phrase: number for number, (phrase, _) in enumerate(ordered)}
        self._all = [(number, phrase) for phrase, number in rank.items()]
        self._codes = [code for _, code in ordered]
        self._groups = [sorted((rank[phrase], phrase) for phrase in group) for group in groups]

    def find_code(self, line: str, literals: Sequence[int]) -> str | None:
        """Return the code of the winning phrase in the line, or None.

        `literals` are the numbers of the fragments in it; a number beyond them means any.
        """
        if len(literals) == 1 and literals[0] < len(self._groups):
            candidates = self._groups[literals[0]]
        elif max(literals) >= len(self._groups):
            candidates = self._all
        else:
            groups = (self._groups[literal] for literal in set(literals))
            candidates = sorted(chain.from_iterable(groups))
        folded = fold_phrase(line)
        for number, phrase in candidates:
            # Most are not in it, and looking is faster than calling.
            if phrase in folded and holds_phrase(folded, phrase):
                return self._codes[number]
        return None
