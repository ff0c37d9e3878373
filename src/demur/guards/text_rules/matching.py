"""Decide rules by the positions of their patterns: `all`, `within` and `unless`.

Of each rule the rarest pattern is found in the whole text, the others only near to it. The
time this takes grows with the text, and the memory does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.scan.database import PatternDatabase, ScanEngineType
from demur.scan.pattern import Pattern
from demur.scan.required import MAX_USEFUL_RATE
from demur.scan.window import SearchWindow

__all__ = ["MAX_HITS", "RuleMatcher", "FoldedHit"]

# Hits of one rule in one text; more say nothing new.
MAX_HITS = 50
# Stretches near each other are searched together, up to this many bytes.
_MAX_SECTION = 16 << 10
# In up to this many places it pays to check one more pattern first.
_MAX_EARLY_CHECKS = 2

_Span = tuple[int, int]


class FoldedHit(NamedTuple):
    """A rule that was hit at these bytes of folded text."""

    rule: TextRule
    start: int
    end: int


class _MatchPlan(NamedTuple):
    """A rule, its patterns with the rarest first, and the indexes of those in the database."""

    rule: TextRule
    patterns: tuple[Pattern, ...]
    indexes: tuple[int, ...]


class RuleMatcher:
    """Finds the rules of a set. Safe to share between threads."""

    def __init__(self, rules: RuleSet, *, engine: ScanEngineType | None = None) -> None:
        patterns: dict[Pattern, int] = {}
        plans = [_plan_rule(rule, patterns) for rule in rules.rules]
        self.database = PatternDatabase(patterns, engine=engine)
        self._plans: list[list[_MatchPlan]] = [[] for _ in patterns]
        for plan in plans:
            self._plans[plan.indexes[0]].append(plan)

    def find_hits(self, data: bytes) -> list[FoldedHit]:
        """Return the hits in folded text: in order for each rule, and never overlapping."""
        survey = self.database.find_candidates(data)
        found: list[FoldedHit] = []
        for index in survey.candidates:
            for plan in self._plans[index]:
                if all(other in survey.candidates for other in plan.indexes) and _is_near(
                    plan, survey.candidates[index], data
                ):
                    places = survey.find_spans(index)
                    if len(plan.patterns) > 1:
                        places = _find_together(plan, places, data)
                    merged = _merge_places(_drop_cancelled(plan.rule, places, data))
                    found += [FoldedHit(plan.rule, start, end) for start, end in merged]
        return found


def _plan_rule(rule: TextRule, patterns: dict[Pattern, int]) -> _MatchPlan:
    ordered = sorted(rule.patterns, key=lambda pattern: pattern.required_words.rate)
    # A pattern that most texts hold slows the search down and rules nothing out.
    seen = [
        ordered[0],
        *(other for other in ordered[1:] if other.required_words.rate < MAX_USEFUL_RATE),
    ]
    places = (patterns.setdefault(pattern, len(patterns)) for pattern in seen)
    return _MatchPlan(rule, tuple(ordered), tuple(places))


def _is_near(plan: _MatchPlan, stretches: Sequence[_Span], data: bytes) -> bool:
    """Return whether the second pattern matches near a candidate of the rarest one.

    The candidate is most likely a match, but the other patterns are seldom near it.
    """
    if len(plan.patterns) == 1 or len(stretches) > _MAX_EARLY_CHECKS:
        return True
    within = plan.rule.within
    near = (SearchWindow(data, start - within, stop + within) for start, stop in stretches)
    return any(window.has_match(plan.patterns[1]) for window in near)


def _find_together(plan: _MatchPlan, rarest: Iterable[_Span], data: bytes) -> Iterator[_Span]:
    """Yield each shortest stretch that holds one of each pattern and is not too long."""
    within = plan.rule.within
    for section, anchors in _split_sections(rarest, within, data):
        found = [anchors]
        for pattern in plan.patterns[1:]:
            found.append(list(section.find_spans(pattern)))
            if not found[-1]:
                break
        else:
            yield from _shortest_stretches(found, within)


def _split_sections(
    anchors: Iterable[_Span], within: int, data: bytes
) -> Iterator[tuple[SearchWindow, list[_Span]]]:
    """Yield parts of the text, each with the anchors whose surroundings it holds."""
    held: list[_Span] = []
    section = SearchWindow(data, 0, 0)
    for start, end in anchors:
        if held and (end - within > section.end or start - section.start > _MAX_SECTION):
            yield section, held
            held = []
        first = section.start if held else end - within
        section = SearchWindow(data, first, start + within)
        held.append((start, end))
    if held:
        yield section, held


def _shortest_stretches(found: list[list[_Span]], within: int) -> Iterator[_Span]:
    events = sorted((end, start, kind) for kind, spans in enumerate(found) for start, end in spans)
    latest = [-1] * len(found)
    before = -1
    for end, start, kind in events:
        latest[kind] = start
        # A stretch that ends here must begin at `first` to hold one of each.
        first = min(latest)
        # A stretch with the same start that ended earlier was shorter.
        if first > before and first >= end - within:
            yield first, end
        before = first


def _drop_cancelled(rule: TextRule, places: Iterable[_Span], data: bytes) -> Iterator[_Span]:
    """Yield the places near which no cancelling pattern begins."""
    for start, end in places:
        near = SearchWindow(data, start - rule.within, end + rule.within)
        if not any(near.has_match(pattern) for pattern in rule.unless):
            yield start, end


def _merge_places(places: Iterable[_Span]) -> list[_Span]:
    """Return the places with overlapping ones merged, up to the limit."""
    merged: list[_Span] = []
    for start, end in places:
        if merged and start < merged[-1][1]:
            merged[-1] = (min(start, merged[-1][0]), max(end, merged[-1][1]))
        elif len(merged) == MAX_HITS:
            break
        else:
            merged.append((start, end))
    return merged
