"""Match rules in folded text that grows: each place is decided once, as soon as it can be.

What is found does not depend on the pieces in which the text came: the matches of a pattern
are the leftmost, longest ones that do not overlap, counted from the beginning; and what
cancels a hit is looked for in the bytes around it alone.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from demur.guards.text_rules.plan import StreamRule, StreamPlan
from demur.guards.text_rules.rule import TextRule

__all__ = ["MAX_HITS", "StreamHit", "IncrementalMatcher"]

# Hits of one rule in one text; more say nothing new.
MAX_HITS = 50

_Span = tuple[int, int]


class StreamHit(NamedTuple):
    """A rule that was hit at these bytes, counted from the beginning of the text."""

    rule: TextRule
    start: int
    end: int


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
        self._progress: dict[int, _RuleProgress] = {}
        self._active: set[int] = set()

    def feed(self, data: bytes, base: int, *, final: bool) -> list[StreamHit]:
        """Return the hits that are decided now, for text whose byte at `base` is `data[0]`.

        `data` continues the earlier text, and still holds it from `first_needed` on.
        """
        text = _TextWindow(data, base, final)
        before, self._length = self._length, text.length
        self._find_matches(text, before)
        if not self._active:
            return []
        hits: list[StreamHit] = []
        for number in sorted(self._active):
            progress = self._progress[number]
            hits += progress.decide_hits(text, self._plan.widths)
            if progress.is_idle:
                self._active.discard(number)
        return hits

    @property
    def first_needed(self) -> int:
        """The first byte that matching may look at again."""
        back = max(self._plan.widest + 2, self._plan.settled + self._plan.before + 1)
        return max(0, self._length - back)

    @property
    def first_undecided(self) -> int:
        """The first byte from which a rule could still be hit."""
        return max(0, self._length - self._plan.settled)

    def _find_matches(self, text: _TextWindow, before: int) -> None:
        """Pass new matches to the rules that use their patterns."""
        first = max(0, before - self._plan.widest - 2 - text.base)
        block = text.data[first:] if first else text.data
        offset = text.base + first
        for number in self._plan.find_matching(block):
            width = self._plan.widths[number]
            known = text.length if text.final else text.length - width - 1
            start = max(before - width - 1, self._resume.get(number, 0), offset)
            for match in self._plan.pattern_searcher(number).finditer(block, start - offset):
                if match.start() + offset >= known:
                    break
                self._resume[number] = match.end() + offset
                self._note_match(number, match.start() + offset, match.end() + offset)

    def _note_match(self, pattern: int, start: int, end: int) -> None:
        for number in self._plan.readers[pattern]:
            if number not in self._progress:
                self._progress[number] = _RuleProgress(self._plan.plans[number])
            self._progress[number].note_match(pattern, start, end)
            self._active.add(number)


class _RuleProgress:
    """The state of one rule: its matches, and stretches that may still be cancelled."""

    def __init__(self, plan: StreamRule) -> None:
        self._plan = plan
        self._alone = len(plan.patterns) == 1
        self._latest = [-1] * len(plan.patterns)
        self._unread: list[tuple[int, int, int]] = []
        self._waiting: deque[_Span] = deque()
        self._last = 0
        self._count = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._waiting and not self._unread

    def note_match(self, pattern: int, start: int, end: int) -> None:
        """Record a match of one of the rule's patterns."""
        for kind, own in enumerate(self._plan.patterns):
            if own == pattern:
                self._unread.append((end, start, kind))

    def decide_hits(self, text: _TextWindow, widths: tuple[int, ...]) -> Iterator[StreamHit]:
        """Yield the hits that no further text can change."""
        self._waiting.extend(self._ready_stretches(text, widths))
        while self._waiting:
            start, end = self._waiting[0]
            if self._plan.cancels and not text.final and text.length < end + self._plan.before:
                return
            self._waiting.popleft()
            if (
                start >= self._last
                and self._count < MAX_HITS
                and not self._is_cancelled(text, start, end)
            ):
                self._last = end
                self._count += 1
                yield StreamHit(self._plan.rule, start, end)

    def _ready_stretches(self, text: _TextWindow, widths: tuple[int, ...]) -> Iterator[_Span]:
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
        within = self._plan.rule.within
        for cancel in self._plan.cancels:
            # One more byte on either side, so that word boundaries match correctly.
            first = max(0, start - within - cancel.width)
            left = max(first - 1, 0)
            block = text.data[left - text.base : end + within + cancel.width + 1 - text.base]
            for match in cancel.searcher.finditer(block, first - left):
                if match.start() + left >= end + within:
                    break
                if match.end() + left > start - within:
                    return True
        return False
