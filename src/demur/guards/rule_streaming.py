"""Match text rules in text that comes in pieces: each place is decided once, as soon as possible.

The result does not depend on the pieces. Matches of a pattern are the leftmost, longest ones
that do not overlap, counted from the beginning, and patterns that cancel a hit are searched
only in the bytes around it. Two things are carried over from piece to piece: a run of white
space, and capitals that are read by the letters beside them.

White space, invisible characters and accents on nothing are folded away before matching, so any
number of them could keep parts of a sentence apart. A run longer than `MAX_PADDING` ends the
text that rules are matched in, and is reported itself.
"""

import re
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules import RuleSet, TextRule
from demur.guards.text_search import SearchStep, TextMatch
from demur.model.finding import Action
from demur.scan.database import PatternDatabase, compile_searcher
from demur.scan.pattern import Pattern
from demur.text.fold import GREEK_CAPITALS, FoldedText, fold_text


class _FoldedPiece:
    """A folded piece, and where its bytes and characters stand in the whole."""

    __slots__ = ("byte", "character", "folded", "skipped")

    def __init__(self, folded: FoldedText, skipped: int, byte: int, character: int) -> None:
        self.folded = folded
        self.skipped = skipped
        self.byte = byte
        self.character = character


class IncrementalFold:
    """The folded bytes of a text so far, with a map back to its characters."""

    def __init__(self, start: int) -> None:
        self._pieces: deque[_FoldedPiece] = deque()
        self._before = ""
        self._waiting = ""
        self._fed = start
        self.data = b""
        self.base = 0

    @property
    def length(self) -> int:
        """How many bytes there are so far."""
        return self.base + len(self.data)

    @property
    def end(self) -> int:
        """The end of the characters that were folded."""
        return self._fed

    def feed(self, text: str, *, final: bool) -> None:
        """Fold the next piece of text."""
        text = self._waiting + text
        self._waiting = "" if final or text[-1:] not in GREEK_CAPITALS else text[-1:]
        if self._waiting:
            text = text[:-1]
        if not text:
            return
        folded = fold_text(self._before + text)
        skipped = len(self._before)
        data = folded.data[skipped:]
        if data[:1] == b" " and self.data[-1:] == b" ":
            skipped += 1
            data = data[1:]
        self._pieces.append(
            _FoldedPiece(folded, skipped, self.length, self._fed - len(self._before))
        )
        self._fed += len(text)
        self.data += data
        self._before = text[-1] if text[-1].isascii() and text[-1].isalpha() else ""

    def original_place(self, byte: int) -> int:
        """Return the place of the character that a byte came from; past the end, the end."""
        if byte >= self.length:
            return self._fed
        pieces = self._pieces
        piece = pieces[bisect_right(pieces, byte, key=lambda each: each.byte) - 1]
        inside = byte - piece.byte + piece.skipped
        return piece.character + piece.folded.original_span(inside, inside + 1)[0]

    def drop_before(self, byte: int) -> None:
        """Drop the bytes before this one, and their map to characters."""
        if byte > self.base:
            self.data = self.data[byte - self.base :]
            self.base = byte
            while len(self._pieces) > 1 and self._pieces[1].byte <= byte:
                self._pieces.popleft()


MAX_PADDING = 256

# All characters that fold to nothing or to a space; a few more do no harm.
_RANGES = (
    r"\s\x00-\x1f\x7f-\x9f\xa8\xad\xaf\xb8\u02d8-\u02dd\u0300-\u036f\u0384\u0385\u0483-\u0489"
    r"\u0591-\u05bd\u0600-\u0605\u061c\u064b-\u065f\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u1fbd\u1fbf-\u1fc1\u1fcd-\u1fcf"
    r"\u1fdd-\u1fdf\u1fed\u1fee\u1ffd\u1ffe\u200b-\u200f\u202a-\u202e\u203e\u2060-\u206f"
    r"\u20d0-\u20ff\u2800\u3164\ufc5e-\ufc62\ufe00-\ufe0f\ufe20-\ufe2f\ufe49-\ufe4c\ufe70-\ufe7f"
    r"\ufeff\uffa0\uffe3\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
PADDING = re.compile(f"[{_RANGES}]*")


def find_padding(text: str, begin: int) -> int | None:
    """Return where the first run begins that is too long, from `begin` on.

    Such a run covers at least one of every `MAX_PADDING + 1` places, so only these are checked.
    """
    step = MAX_PADDING + 1
    for place in range(begin + MAX_PADDING, len(text), step):
        start = find_padding_start(text, begin, place + 1)
        run = PADDING.match(text, start, start + step)
        if run is not None and run.end() == start + step:
            return start
    return None


def find_padding_start(text: str, begin: int, end: int) -> int:
    """Return where the padding begins that ends at `end`; `end` if there is none."""
    while end > begin and PADDING.fullmatch(text[end - 1]):
        end -= 1
    return end


_MAX_PLANS = 32


class CancelPattern(NamedTuple):
    """A pattern that cancels a hit near it."""

    searcher: Any
    width: int


class StreamRule(NamedTuple):
    """A rule, the numbers of its patterns, and what cancels it."""

    rule: TextRule
    patterns: tuple[int, ...]
    cancels: tuple[CancelPattern, ...]
    # How many bytes before and after its first byte decide whether the rule is hit there.
    before: int
    settled: int


class StreamPlan:
    """Patterns compiled together, and the rules that read them. Safe to share between threads."""

    def __init__(self, rules: RuleSet) -> None:
        numbers: dict[Pattern, int] = {}
        cancels: dict[Pattern, CancelPattern] = {}
        self.plans = tuple(_plan_rule(rule, numbers, cancels) for rule in rules.rules)
        self.patterns = tuple(numbers)
        self.widths = tuple(pattern.width for pattern in self.patterns)
        self.widest = max(self.widths, default=0)
        self.before = max((plan.before for plan in self.plans), default=0)
        self.settled = max((plan.settled for plan in self.plans), default=0)
        self.readers: dict[int, list[int]] = {}
        for number, plan in enumerate(self.plans):
            for pattern in set(plan.patterns):
                self.readers.setdefault(pattern, []).append(number)
        # Growing text is searched again from the last place, so spans are of no use.
        self._database = PatternDatabase(self.patterns, presence_only=True)
        self._searchers: list[Any] = [None] * len(self.patterns)

    def find_matching(self, data: bytes) -> Sequence[int]:
        """Return the numbers of the patterns that may match in folded text."""
        return sorted(self._database.find_candidates(data).candidates) if self.patterns else ()

    def pattern_searcher(self, pattern: int) -> Any:
        """Return a searcher for the leftmost, longest matches of a pattern."""
        found = self._searchers[pattern]
        if found is None:
            found = self._searchers[pattern] = compile_searcher(self.patterns[pattern].expression)
        return found


def _plan_rule(
    rule: TextRule, numbers: dict[Pattern, int], cancels: dict[Pattern, CancelPattern]
) -> StreamRule:
    for pattern in rule.unless:
        if pattern not in cancels:
            cancels[pattern] = CancelPattern(compile_searcher(pattern.expression), pattern.width)
    widest = max(pattern.width for pattern in rule.patterns)
    settled = rule.width if len(rule.patterns) == 1 else rule.width + widest
    before = 0
    if rule.unless:
        before = rule.within + max(pattern.width for pattern in rule.unless) + 1
        settled = max(settled, rule.width + before)
    return StreamRule(
        rule,
        tuple(numbers.setdefault(pattern, len(numbers)) for pattern in rule.patterns),
        tuple(cancels[pattern] for pattern in rule.unless),
        before,
        settled + 1,
    )


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


_LOWER = bytes(range(ord("a"), ord("z") + 1))
_ROT13 = bytes.maketrans(_LOWER, _LOWER[13:] + _LOWER[:13])


class _SearchView(NamedTuple):
    """A reading of the folded text, and its matcher."""

    via: str
    matching: IncrementalMatcher


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
        self._views = (
            _SearchView("", IncrementalMatcher(self._plan)),
            _SearchView("rot13", IncrementalMatcher(self._plan)),
        )
        self._taken = place

    def feed(self, text: str, base: int, *, final: bool) -> SearchStep:
        """Return the matches decided now in a text whose character at `base` is `text[0]`.

        Places, here and in the result, count from the beginning of the whole text.
        """
        seen: list[TextMatch] = []
        while self._taken < base + len(text):
            self._consume_text(text, base, seen)
        if final:
            seen += self._decide_text("", final=True)
            return SearchStep(tuple(seen), base + len(text))
        return SearchStep(tuple(seen), self._first_undecided())

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
            matches.append(_padding_match(base + cut, base + stop, self._padding))
        self._taken = base + stop
        self._skipping = True

    def _decide_text(self, text: str, *, final: bool) -> list[TextMatch]:
        folding = self._folding
        folding.feed(text, final=final)
        seen = [
            self._make_match(hit, view.via)
            for view in self._views
            for hit in view.matching.feed(
                _apply_view(folding.data, view.via), folding.base, final=final
            )
        ]
        matching = self._views[0].matching
        folding.drop_before(min(matching.first_undecided, matching.first_needed))
        return seen

    def _make_match(self, hit: StreamHit, via: str) -> TextMatch:
        rule = hit.rule
        evidence = {"rule": rule.id, "via": via} if via else {"rule": rule.id}
        start = self._folding.original_place(hit.start)
        end = self._folding.original_place(hit.end - 1) + 1
        return TextMatch(start, end, rule.code, rule.action, rule.description, evidence)

    def _first_undecided(self) -> int:
        if self._skipping:
            return self._taken
        return self._folding.original_place(self._views[0].matching.first_undecided)


def _apply_view(data: bytes, via: str) -> bytes:
    return data.translate(_ROT13) if via else data


def _padding_match(start: int, end: int, action: Action) -> TextMatch:
    detail = "a long run of characters that cannot be seen"
    return TextMatch(
        start, end, ReasonCode.OUTPUT_FORBIDDEN, action, detail, {"rule": "LONG_PADDING"}
    )
