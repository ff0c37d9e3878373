"""A text rule and a set of them, as values."""

from collections.abc import Mapping

import msgspec

from demur.codes.vocabulary import Surface
from demur.model.finding import Action
from demur.scan.pattern import Pattern

__all__ = ["DEFAULT_WITHIN", "TextRule", "RuleSet"]

DEFAULT_WITHIN = 120


class TextRule(msgspec.Struct, frozen=True, kw_only=True):
    """One text rule: its patterns, and the code and action of a hit.

    All of `patterns` must occur, in any order, in a stretch of `within` bytes of folded text;
    one of `unless` that near to it cancels the hit. `refuse` and `allow` are texts that the
    rule must hit and must not.
    """

    id: str
    code: str
    action: Action
    description: str
    patterns: tuple[Pattern, ...]
    within: int = DEFAULT_WITHIN
    unless: tuple[Pattern, ...] = ()
    refuse: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    where: str = ""

    @property
    def width(self) -> int:
        """The maximum number of bytes of folded text in a hit."""
        if len(self.patterns) == 1:
            return self.patterns[0].width
        return self.within

    @property
    def reach(self) -> int:
        """The maximum number of bytes that decide a hit, cancelling patterns included."""
        if not self.unless:
            return self.width
        return self.width + 2 * self.within + max(pattern.width for pattern in self.unless)


class RuleSet(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one surface. Rule sets of the same digest find the same."""

    surface: Surface
    rules: tuple[TextRule, ...]
    digest: str
    where: str = ""

    def __getitem__(self, rule_id: str) -> TextRule:
        return self._by_id()[rule_id]

    def _by_id(self) -> Mapping[str, TextRule]:
        return {rule.id: rule for rule in self.rules}

    @property
    def reach(self) -> int:
        """The maximum number of bytes that decide a hit of any rule."""
        return max((rule.reach for rule in self.rules), default=0)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes that its rules can find, in the order of the rules, each once."""
        return tuple(dict.fromkeys(rule.code for rule in self.rules))
