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
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.rule_matching import MAX_HITS, ByteSpan, FoldedHit
from demur.guards.text_rules import RuleSet, TextRule
from demur.guards.text_search import SearchStep, TextMatch
from demur.model.finding import Action
from demur.scan.database import PatternDatabase, SearchWindow, compile_searcher
from demur.scan.pattern import Pattern
from demur.text.fold import GREEK_CAPITALS, FoldedText, fold_text


class _FoldedPiece(NamedTuple):
    """A folded piece, and where its bytes and characters stand in the whole."""

    folded: FoldedText
    skipped: int
    byte: int
    character: int


class IncrementalFold:
    """The folded bytes of a text so far, with a map back to its characters."""

    def __init__(self, start: int) -> None:
        self._pieces: deque[_FoldedPiece] = deque()
        self._before = ""
        self._waiting = ""
        # The end of the characters that were folded.
        self.end = start
        self.data = b""
        self.base = 0

    @property
    def length(self) -> int:
        """How many bytes there are so far."""
        return self.base + len(self.data)

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
        character = self.end - len(self._before)
        self._pieces.append(_FoldedPiece(folded, skipped, self.length, character))
        self.end += len(text)
        self.data += data
        self._before = text[-1] if text[-1].isascii() and text[-1].isalpha() else ""

    def original_place(self, byte: int) -> int:
        """Return the place of the character that a byte came from; past the end, the end."""
        if byte >= self.length:
            return self.end
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


class StreamRule(NamedTuple):
    """A rule, and the numbers of its patterns."""

    rule: TextRule
    patterns: tuple[int, ...]
    # How many bytes before and after its first byte decide whether the rule is hit there.
    before: int
    settled: int


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
        # Growing text is searched again from the last place, so spans are of no use.
        self._database = PatternDatabase(self.patterns, presence_only=True)

    def find_matching(self, data: bytes) -> Sequence[int]:
        """Return the numbers of the patterns that may match in folded text."""
        return sorted(self._database.find_candidates(data).candidates) if self.patterns else ()


def _plan_rule(rule: TextRule, numbers: dict[Pattern, int]) -> StreamRule:
    patterns = tuple(numbers.setdefault(pattern, len(numbers)) for pattern in rule.patterns)
    settled = rule.width
    if len(patterns) > 1:
        settled += max(pattern.width for pattern in rule.patterns)
    if not rule.unless:
        return StreamRule(rule, patterns, 0, settled + 1)
    before = rule.within + max(pattern.width for pattern in rule.unless) + 1
    return StreamRule(rule, patterns, before, max(settled, rule.width + before) + 1)


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
        self._progress: dict[int, _RuleProgress] = {}
        self._active: set[int] = set()

    def feed(self, data: bytes, base: int, *, final: bool) -> list[FoldedHit]:
        """Return the hits that are decided now, for text whose byte at `base` is `data[0]`.

        `data` continues the earlier text, and still holds it from `first_needed` on.
        """
        text = _TextWindow(data, base, final)
        before, self._length = self._length, text.length
        self._find_matches(text, before)
        if not self._active:
            return []
        hits: list[FoldedHit] = []
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

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._waiting and not self._unread

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
        # Whether the text without marks is read as well.
        self._reads_bare = True
        self._restart(0)

    def _restart(self, place: int) -> None:
        self._run = 0
        self._folding, self._bare_folding = IncrementalFold(place), IncrementalFold(place)
        self._plain, self._rot13 = IncrementalMatcher(self._plan), IncrementalMatcher(self._plan)
        self._bare = IncrementalMatcher(self._plan)
        # Where marks stand in the text that is still kept.
        self._marks: list[int] = []
        self._taken = place

    def feed(self, text: str, base: int, *, final: bool) -> SearchStep:
        """Return the matches decided now in a text whose character at `base` is `text[0]`.

        Places, here and in the result, count from the beginning of the whole text.
        """
        matches: list[TextMatch] = []
        if final and self._taken == base == 0 and not _MARK.search(text):
            # The whole text is here and has no marks, so its bare reading is the plain one.
            self._reads_bare = False
        while self._taken < base + len(text):
            self._consume_text(text, base, matches)
        if final:
            matches += self._decide_text("", final=True)
            return SearchStep(tuple(matches), base + len(text))
        plain = self._folding.original_place(self._plain.first_undecided)
        bare = self._bare_folding.original_place(self._bare.first_undecided)
        return SearchStep(tuple(matches), self._taken if self._skipping else min(plain, bare))

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
        folding, bare, marks = self._folding, self._bare_folding, self._marks
        folding.feed(text, final=final)
        data, base = folding.data, folding.base
        plain = self._plain.feed(data, base, final=final)
        turned = self._rot13.feed(data.translate(_ROT13), base, final=final)
        matches = [_make_match(hit, folding) for hit in plain]
        matches += [_make_match(hit, folding, via="rot13") for hit in turned]
        folding.drop_before(min(self._plain.first_undecided, self._plain.first_needed))
        if self._reads_bare:
            marks.extend(self._taken + mark.start() for mark in _MARK.finditer(text))
            bare.feed(text.translate(_BLANKED), final=final)
            unmarked = self._bare.feed(bare.data, bare.base, final=final)
            bared = (_make_match(hit, bare, via="markup") for hit in unmarked)
            matches += [match for match in bared if _holds_mark(match, marks)]
            bare.drop_before(min(self._bare.first_undecided, self._bare.first_needed))
            del marks[: bisect_left(marks, bare.original_place(bare.base))]
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
