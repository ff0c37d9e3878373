"""Decide rules by the positions of their patterns: `all`, `within` and `unless`.

Of each rule the rarest pattern is found in the whole text, the others only near to it. The
time this takes grows with the text, and the memory does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from demur.guards.text_rules.rule import Rule, RuleSet
from demur.scan.database import Database, EngineType
from demur.scan.pattern import Pattern
from demur.scan.required import DULL
from demur.scan.window import Window

__all__ = ["MOST_HITS", "Matcher", "Sighting"]

# Hits of one rule in one text; more say nothing new.
MOST_HITS = 50
# Stretches near each other are searched together, up to this many bytes.
_SECTION = 16 << 10
# In up to this many places it pays to check one more pattern first.
_FEW = 2

_Span = tuple[int, int]


class Sighting(NamedTuple):
    """A rule that was hit at these bytes of folded text."""

    rule: Rule
    start: int
    end: int


class _Plan(NamedTuple):
    """A rule, its patterns with the rarest first, and the indexes of those in the database."""

    rule: Rule
    patterns: tuple[Pattern, ...]
    seen: tuple[int, ...]


class Matcher:
    """Finds the rules of a set. Safe to share between threads."""

    def __init__(self, rules: RuleSet, *, engine: EngineType | None = None) -> None:
        patterns: dict[Pattern, int] = {}
        plans = [_plan(rule, patterns) for rule in rules.rules]
        self.database = Database(patterns, engine=engine)
        self._plans: list[list[_Plan]] = [[] for _ in patterns]
        for plan in plans:
            self._plans[plan.seen[0]].append(plan)

    def find(self, data: bytes) -> list[Sighting]:
        """Return the hits in folded text: in order for each rule, and never overlapping."""
        survey = self.database.survey(data)
        found: list[Sighting] = []
        for index in survey.candidates:
            for plan in self._plans[index]:
                if all(other in survey.candidates for other in plan.seen) and _is_near(
                    plan, survey.candidates[index], data
                ):
                    places = survey.spans(index)
                    if len(plan.patterns) > 1:
                        places = _together(plan, places, data)
                    merged = _merged(_clear(plan.rule, places, data))
                    found += [Sighting(plan.rule, start, end) for start, end in merged]
        return found


def _plan(rule: Rule, patterns: dict[Pattern, int]) -> _Plan:
    ordered = sorted(rule.patterns, key=lambda pattern: pattern.required.odds)
    # A pattern that most texts hold slows the search down and rules nothing out.
    seen = [ordered[0], *(other for other in ordered[1:] if other.required.odds < DULL)]
    places = (patterns.setdefault(pattern, len(patterns)) for pattern in seen)
    return _Plan(rule, tuple(ordered), tuple(places))


def _is_near(plan: _Plan, stretches: Sequence[_Span], data: bytes) -> bool:
    """Return whether the second pattern matches near a candidate of the rarest one.

    The candidate is most likely a match, but the other patterns are seldom near it.
    """
    if len(plan.patterns) == 1 or len(stretches) > _FEW:
        return True
    within = plan.rule.within
    near = (Window(data, start - within, stop + within) for start, stop in stretches)
    return any(window.has(plan.patterns[1]) for window in near)


def _together(plan: _Plan, rarest: Iterable[_Span], data: bytes) -> Iterator[_Span]:
    """Yield each shortest stretch that holds one of each pattern and is not too long."""
    within = plan.rule.within
    for section, anchors in _sections(rarest, within, data):
        found = [anchors]
        for pattern in plan.patterns[1:]:
            found.append(list(section.spans(pattern)))
            if not found[-1]:
                break
        else:
            yield from _stretches(found, within)


def _sections(
    anchors: Iterable[_Span], within: int, data: bytes
) -> Iterator[tuple[Window, list[_Span]]]:
    """Yield parts of the text, each with the anchors whose surroundings it holds."""
    held: list[_Span] = []
    section = Window(data, 0, 0)
    for start, end in anchors:
        if held and (end - within > section.end or start - section.start > _SECTION):
            yield section, held
            held = []
        first = section.start if held else end - within
        section = Window(data, first, start + within)
        held.append((start, end))
    if held:
        yield section, held


def _stretches(found: list[list[_Span]], within: int) -> Iterator[_Span]:
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


def _clear(rule: Rule, places: Iterable[_Span], data: bytes) -> Iterator[_Span]:
    """Yield the places near which no cancelling pattern begins."""
    for start, end in places:
        near = Window(data, start - rule.within, end + rule.within)
        if not any(near.has(pattern) for pattern in rule.unless):
            yield start, end


def _merged(places: Iterable[_Span]) -> list[_Span]:
    """Return the places with overlapping ones merged, up to the limit."""
    merged: list[_Span] = []
    for start, end in places:
        if merged and start < merged[-1][1]:
            merged[-1] = (min(start, merged[-1][0]), max(end, merged[-1][1]))
        elif len(merged) == MOST_HITS:
            break
        else:
            merged.append((start, end))
    return merged
