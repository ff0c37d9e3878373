"""The rules of a set, made ready for text that comes in pieces: what to find, how far to look."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.scan.database import PatternDatabase
from demur.scan.pattern import Pattern
from demur.scan.re2_engine import compile_searcher

__all__ = ["CancelPattern", "StreamRule", "StreamPlan", "get_stream_plan"]

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
