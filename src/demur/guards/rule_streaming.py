"""Match text rules in text that comes in pieces: each place is decided once, as soon as possible.

The result does not depend on the pieces. Matches of a pattern are the leftmost, longest ones
that do not overlap, counted from the beginning, and patterns that cancel a hit are searched
only in the bytes around it. Text is decided as soon as no rule can begin in it any more.

A run of invisible characters longer than `MAX_PADDING` ends the text that rules are matched in,
and is reported itself.
"""

import re
import threading
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.rule_matching import MAX_HITS, ByteSpan, FoldedHit
from demur.guards.text_rules import RuleSet, TextRule
from demur.guards.text_search import SearchStep, TextMatch
from demur.model.finding import Action
from demur.scan.database import PatternDatabase, SearchWindow, compile_searcher
from demur.scan.opening import OPENING_WIDTHS
from demur.scan.pattern import Pattern
from demur.text.incremental_fold import (
    MAX_PADDING,
    PADDING,
    IncrementalFold,
    find_padding,
    find_padding_start,
)

_MAX_PLANS = 32


class StreamRule(NamedTuple):
    """A rule, and the numbers of its patterns."""

    rule: TextRule
    patterns: tuple[int, ...]
    # How many bytes before and after its first byte decide whether the rule is hit there.
    before: int
    settled: int
    # How many bytes after its first byte its patterns are found, where it needs several.
    reach: int


class OpeningPlan(NamedTuple):
    """Patterns that begin alike: how their matches begin, and how wide these may become.

    The searchers belong to `OPENING_WIDTHS`.
    """

    searchers: tuple[Any, ...]
    width: int

    def find_open(self, data: bytes, start: int, stop: int) -> int | None:
        """Return where, from `start` up to before `stop`, a match may begin in growing text."""
        while start < stop:
            found = self.searchers[0].search(data, start)
            if found is None or found.start() >= stop:
                return None
            start = found.start()
            size = len(data) - start
            if size <= self.width + 1 and self._may_grow(data, start, size):
                return start
            start += 1
        return None

    def _may_grow(self, data: bytes, start: int, size: int) -> bool:
        """Return whether the widest opening that the text can show matches at a place."""
        for width, searcher in zip(_REVERSED_WIDTHS, self.searchers[::-1], strict=True):
            # One more byte shows where a word ends.
            if size > width + 1:
                return searcher.match(data, start) is not None
        return True


_REVERSED_WIDTHS = OPENING_WIDTHS[::-1]


class StreamPlan:
    """Patterns compiled together, and the rules that read them. Safe to share between threads."""

    def __init__(self, rules: RuleSet) -> None:
        numbers: dict[Pattern, int] = {}
        self.plans = tuple(_plan_rule(rule, numbers) for rule in rules.rules)
        self.patterns = tuple(numbers)
        self.widths = tuple(pattern.width for pattern in self.patterns)
        self.widest = max(self.widths, default=0)
        self.before = max((plan.before for plan in self.plans), default=0)
        self.settled = max((plan.settled for plan in self.plans), default=0)
        self.readers: dict[int, list[int]] = {}
        for number, plan in enumerate(self.plans):
            for pattern in set(plan.patterns):
                self.readers.setdefault(pattern, []).append(number)
        self._heads, self._followers = _group_openings(self.patterns)
        self._openings: dict[int, OpeningPlan] = {}
        # So much text must follow a place before it is known what may begin there.
        self.unopened = max(map(_unopened_width, self.patterns), default=0) + 1
        # Growing text is searched again from the last place, so spans are of no use.
        everything = (*self.patterns, *self._heads)
        self._database = PatternDatabase(everything, presence_only=True)

    def find_matching(self, data: bytes) -> Sequence[int]:
        """Return the numbers of patterns and, after them, of openings that may match in text."""
        return sorted(self._database.find_present(data)) if self.patterns else ()

    def opening(self, number: int) -> OpeningPlan:
        """Return an opening by its number; compiled on first use."""
        found = self._openings.get(number)
        if found is None:
            patterns = self._followers[number - len(self.patterns)]
            levels = zip(*(_opening_expressions(each) for each in patterns), strict=True)
            searchers = tuple(compile_searcher(b"|".join(dict.fromkeys(level))) for level in levels)
            width = max(pattern.width for pattern in patterns)
            found = self._openings[number] = OpeningPlan(searchers, width)
        return found


def _group_openings(
    patterns: Iterable[Pattern],
) -> tuple[tuple[Pattern, ...], tuple[tuple[Pattern, ...], ...]]:
    """Return how matches begin, each once, and the patterns of each."""
    found: dict[Pattern, list[Pattern]] = {}
    for pattern in patterns:
        if pattern.opening is not None and pattern.width > OPENING_WIDTHS[0]:
            found.setdefault(pattern.opening.head, []).append(pattern)
    return tuple(found), tuple(map(tuple, found.values()))


def _unopened_width(pattern: Pattern) -> int:
    return pattern.width if pattern.opening is None else min(pattern.width, OPENING_WIDTHS[0])


def _opening_expressions(pattern: Pattern) -> tuple[bytes, ...]:
    assert pattern.opening is not None
    return pattern.opening.head.expression, *pattern.opening.longer


def _plan_rule(rule: TextRule, numbers: dict[Pattern, int]) -> StreamRule:
    patterns = tuple(numbers.setdefault(pattern, len(numbers)) for pattern in rule.patterns)
    settled = rule.width
    if len(patterns) > 1:
        settled += max(pattern.width for pattern in rule.patterns)
    reach = settled + 1
    if not rule.unless:
        return StreamRule(rule, patterns, 0, reach, reach)
    before = rule.within + max(pattern.width for pattern in rule.unless) + 1
    return StreamRule(rule, patterns, before, max(reach, rule.width + before + 1), reach)


_lock = threading.Lock()
_plans: OrderedDict[str, StreamPlan] = OrderedDict()


def get_stream_plan(rules: RuleSet) -> StreamPlan:
    """Return the plan for a rule set; the newest plans are cached."""
    with _lock:
        found = _plans.get(rules.digest)
        if found is None:
            found = _plans[rules.digest] = StreamPlan(rules)
            if len(_plans) > _MAX_PLANS:
                _plans.popitem(last=False)
        return found


class _TextWindow(NamedTuple):
    """Folded text from `base` on, and whether its end is the end."""

    data: bytes
    base: int
    final: bool

    @property
    def length(self) -> int:
        return self.base + len(self.data)


class IncrementalMatcher:
    """Matches rules in one text that grows. Not to be shared between texts."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._length = 0
        self._resume: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._progress: dict[int, _RuleProgress] = {}
        self._active: set[int] = set()
        # The first byte from which a rule could still be hit.
        self.first_undecided = 0

    def copy(self) -> "IncrementalMatcher":
        """Return a matcher of the same text, to be continued in another way."""
        other = copy(self)
        own = vars(other)
        own |= {name: own[name].copy() for name in ("_resume", "_opened", "_active")}
        own["_progress"] = {number: one.copy() for number, one in self._progress.items()}
        return other

    def feed(self, data: bytes, base: int, *, final: bool) -> list[FoldedHit]:
        """Return the hits that are decided now, for text whose byte at `base` is `data[0]`.

        `data` continues the earlier text, and still holds it from `first_needed` on.
        """
        text = _TextWindow(data, base, final)
        before, self._length = self._length, text.length
        self._find_matches(text, before)
        hits: list[FoldedHit] = []
        for number in sorted(self._active):
            progress = self._progress[number]
            hits += progress.decide_hits(text, self._plan.widths)
            if progress.is_idle:
                self._active.discard(number)
        self.first_undecided = self._find_undecided()
        return hits

    @property
    def first_needed(self) -> int:
        """The first byte that matching may look at again."""
        back = max(self._plan.widest + 2, self._plan.settled + self._plan.before + 1)
        return max(0, self._length - back)

    def _find_undecided(self) -> int:
        """Return the first byte from which a rule could still be hit."""
        places = [one.find_open_start(self._length) for one in self._progress.values()]
        place = min((self._length - self._plan.unopened, *places, *self._opened.values()))
        # No place opens again, since what rules it out is not undone.
        return max(self.first_undecided, place)

    def _find_matches(self, text: _TextWindow, before: int) -> None:
        """Pass new matches to the rules that use their patterns."""
        first = max(0, before - self._plan.widest - 2 - text.base)
        block = text.data[first:] if first else text.data
        offset = text.base + first
        found = self._plan.find_matching(block)
        patterns = bisect_left(found, len(self._plan.patterns))
        if not text.final:
            self._find_openings(text, before, found[patterns:])
        for number in found[:patterns]:
            width = self._plan.widths[number]
            known = text.length if text.final else text.length - width - 1
            start = max(before - width - 1, self._resume.get(number, 0), offset)
            searcher = compile_searcher(self._plan.patterns[number].expression)
            for match in searcher.finditer(block, start - offset):
                if match.start() + offset >= known:
                    break
                self._resume[number] = match.end() + offset
                for reader in self._plan.readers[number]:
                    if reader not in self._progress:
                        self._progress[reader] = _RuleProgress(self._plan.plans[reader])
                    self._progress[reader].note_match(
                        number, match.start() + offset, match.end() + offset
                    )
                    self._active.add(reader)

    def _find_openings(self, text: _TextWindow, before: int, found: Iterable[int]) -> None:
        """Note for each opening the first place from which its patterns may still match."""
        stop = text.length - self._plan.unopened
        for number in {*self._opened, *found}:
            opening = self._plan.opening(number)
            start = self._opened.pop(number, before - self._plan.unopened)
            # An earlier match would be complete.
            start = max(start, text.length - opening.width - 1, text.base)
            place = opening.find_open(text.data, start - text.base, stop - text.base)
            if place is not None:
                self._opened[number] = place + text.base


class _RuleProgress:
    """The state of one rule: its matches, and stretches that may still be cancelled."""

    def __init__(self, plan: StreamRule) -> None:
        self._plan = plan
        self._alone = len(plan.patterns) == 1
        self._latest = [-1] * len(plan.patterns)
        self._unread: list[tuple[int, int, int]] = []
        self._waiting: deque[ByteSpan] = deque()
        self._last = 0
        self._count = 0

    def copy(self) -> "_RuleProgress":
        """Return the same state, to be continued in another way."""
        other = copy(self)
        own = vars(other)
        own |= {name: own[name].copy() for name in ("_latest", "_unread", "_waiting")}
        return other

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._waiting and not self._unread

    def find_open_start(self, length: int) -> int:
        """Return the first place where a hit may begin that is not decided yet; else the end."""
        place = length
        if self._count == MAX_HITS:
            return place
        if self._waiting:
            place = self._waiting[0][0]
        if self._unread:
            place = min(place, *(start for _, start, _ in self._unread))
        if not self._alone:
            # A match that is wholly behind this cannot be part of a later stretch.
            first = max(length - self._plan.reach, self._last)
            for start in self._latest:
                if first <= start < place:
                    place = start
        return place

    def note_match(self, pattern: int, start: int, end: int) -> None:
        """Record a match of one of the rule's patterns."""
        for kind, own in enumerate(self._plan.patterns):
            if own == pattern:
                self._unread.append((end, start, kind))

    def decide_hits(self, text: _TextWindow, widths: tuple[int, ...]) -> Iterator[FoldedHit]:
        """Yield the hits that no further text can change."""
        self._waiting.extend(self._ready_stretches(text, widths))
        while self._waiting:
            start, end = self._waiting[0]
            if not text.final and text.length < end + self._plan.before:
                return
            self._waiting.popleft()
            if start < self._last or self._count == MAX_HITS:
                continue
            if not self._is_cancelled(text, start, end):
                self._last = end
                self._count += 1
                yield FoldedHit(self._plan.rule, start, end)

    def _ready_stretches(self, text: _TextWindow, widths: tuple[int, ...]) -> Iterator[ByteSpan]:
        """Yield each shortest stretch with one match of each pattern, by their ends."""
        known = text.length
        if not text.final and not self._alone:
            known -= max(widths[pattern] for pattern in self._plan.patterns) + 1
        ready = sorted(event for event in self._unread if event[0] <= known)
        self._unread = [event for event in self._unread if event[0] > known]
        for end, start, kind in ready:
            self._latest[kind] = start
            first = min(self._latest)
            if self._alone or 0 <= first >= end - self._plan.rule.within:
                yield first, end

    def _is_cancelled(self, text: _TextWindow, start: int, end: int) -> bool:
        """Return whether something that cancels the rule lies near, wholly or in part."""
        rule = self._plan.rule
        first, last = start - rule.within - text.base, end + rule.within - text.base
        return any(
            found > first
            for pattern in rule.unless
            for _, found in SearchWindow(text.data, first - pattern.width, last).find_spans(pattern)
        )


# Marks of Markdown read as spaces. A piece may end anywhere, so no mark is judged by its context.
_MARK = re.compile(r"[*`~|#>]")
# From here on, marks in text that is dropped are forgotten.
_MAX_MARKS = 64
_BLANKED = str.maketrans(dict.fromkeys("*`~|#>", " "))
_LOWER = bytes(range(ord("a"), ord("z") + 1))
_ROT13 = bytes.maketrans(_LOWER, _LOWER[13:] + _LOWER[:13])


class RuleSearch:
    """Searches one text that comes in pieces for rules. Not to be shared between texts."""

    def __init__(self, plan: StreamPlan, padding: Action | None) -> None:
        self._plan = plan
        self._padding = padding
        # Whether the text is inside a run of padding that is too long.
        self._skipping = False
        self._restart(0)

    def _restart(self, place: int) -> None:
        self._run = 0
        self._folding = IncrementalFold(place)
        self._plain, self._rot13 = IncrementalMatcher(self._plan), IncrementalMatcher(self._plan)
        # The text read without marks; up to the first mark it is the plain text.
        self._bare: tuple[IncrementalFold, IncrementalMatcher] | None = None
        # Where marks stand in the text that is still kept.
        self._marks: list[int] = []
        self._taken = place

    def feed(self, text: str, base: int, *, final: bool) -> SearchStep:
        """Return the matches decided now in a text whose character at `base` is `text[0]`.

        Places, here and in the result, count from the beginning of the whole text.
        """
        matches: list[TextMatch] = []
        while self._taken < base + len(text):
            self._consume_text(text, base, matches)
        if final:
            matches += self._decide_text("", final=True)
            return SearchStep(tuple(matches), base + len(text))
        return SearchStep(
            tuple(matches), self._taken if self._skipping else self._undecided_place()
        )

    def _undecided_place(self) -> int:
        """Return the first place where something may still be found."""
        plain = min(self._plain.first_undecided, self._rot13.first_undecided)
        place = self._folding.original_place(plain)
        if self._bare is None:
            return place
        folding, matcher = self._bare
        return min(place, folding.original_place(matcher.first_undecided))

    def _consume_text(self, text: str, base: int, matches: list[TextMatch]) -> None:
        """Consume the text, or the part up to the end of a run of padding that is too long."""
        begin = self._taken - base
        if self._skipping:
            visible = PADDING.match(text, begin)
            assert visible is not None
            self._restart(base + visible.end())
            self._skipping = visible.end() == len(text)
            return
        cut = find_padding(text, begin - self._run)
        if cut is None:
            matches += self._decide_text(text[begin:], final=False)
            self._run = len(text) - find_padding_start(text, begin - self._run, len(text))
            self._taken = base + len(text)
            return
        stop = cut + MAX_PADDING + 1
        matches += self._decide_text(text[begin:stop], final=True)
        if self._padding is not None:
            detail = "a long run of characters that cannot be seen"
            facts = (ReasonCode.OUTPUT_FORBIDDEN, self._padding, detail, {"rule": "LONG_PADDING"})
            matches.append(TextMatch(base + cut, base + stop, *facts))
        self._taken = base + stop
        self._skipping = True

    def _decide_text(self, text: str, *, final: bool) -> list[TextMatch]:
        marks = [self._taken + mark.start() for mark in _MARK.finditer(text)]
        if marks and self._bare is None:
            self._bare = self._folding.copy(), self._plain.copy()
        folding = self._folding
        folding.feed(text, final=final)
        data, base = folding.data, folding.base
        plain = self._plain.feed(data, base, final=final)
        turned = self._rot13.feed(data.translate(_ROT13), base, final=final)
        matches = [_make_match(hit, folding) for hit in plain]
        matches += [_make_match(hit, folding, via="rot13") for hit in turned]
        undecided = min(self._plain.first_undecided, self._rot13.first_undecided)
        folding.drop_before(min(undecided, self._plain.first_needed))
        if self._bare is not None:
            self._marks += marks
            matches += self._decide_bare(text, *self._bare, final=final)
        return matches

    def _decide_bare(
        self, text: str, folding: IncrementalFold, matcher: IncrementalMatcher, *, final: bool
    ) -> list[TextMatch]:
        folding.feed(text.translate(_BLANKED), final=final)
        hits = matcher.feed(folding.data, folding.base, final=final)
        bared = (_make_match(hit, folding, via="markup") for hit in hits)
        matches = [match for match in bared if _holds_mark(match, self._marks)]
        folding.drop_before(min(matcher.first_undecided, matcher.first_needed))
        if len(self._marks) > _MAX_MARKS:
            del self._marks[: bisect_left(self._marks, folding.original_place(folding.base))]
        return matches


def _make_match(hit: FoldedHit, folding: IncrementalFold, **via: str) -> TextMatch:
    rule = hit.rule
    start = folding.original_place(hit.start)
    end = folding.original_place(hit.end - 1) + 1
    evidence = {"rule": rule.id, **via}
    return TextMatch(start, end, rule.code, rule.action, rule.description, evidence)


def _holds_mark(match: TextMatch, marks: Sequence[int]) -> bool:
    """Return whether a mark stands in the match; without one, the plain text reads the same."""
    index = bisect_left(marks, match.start)
    return index < len(marks) and marks[index] < match.end
