"""What an import has to say: what was left out, what decides otherwise, what to know."""

from enum import StrEnum
from typing import NamedTuple

from demur.errors import DemurError

__all__ = ["KINDS", "CannotCarryError", "Level", "Remark", "Remarks"]


class Level(StrEnum):
    """The level of a diagnostic."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


# Error: something was left out. Warning: it decides or reports differently. Note: no change.
KINDS = {
    "left-out": Level.ERROR,
    "code-class": Level.WARNING,
    "code-left-out": Level.WARNING,
    "code-replaced": Level.WARNING,
    "ignored-key": Level.WARNING,
    "mode": Level.WARNING,
    "never-matched": Level.WARNING,
    "on-trial": Level.WARNING,
    "precedence": Level.WARNING,
    "rates": Level.WARNING,
    "renamed-rule": Level.WARNING,
    "unequal": Level.WARNING,
    "verdict": Level.WARNING,
    "words-left-out": Level.WARNING,
    "code-renamed": Level.NOTE,
    "evidence-needed": Level.NOTE,
    "kinds": Level.NOTE,
    "moved": Level.NOTE,
    "never-read": Level.NOTE,
}
# These hold for the whole policy and are reported once, at the first place.
_ONCE = frozenset({"kinds", "precedence", "rates"})


class CannotCarryError(DemurError):
    """A part of a Lumyn policy that cannot be translated."""


class Remark(NamedTuple):
    """One difference, its place, and the rule that it concerns."""

    kind: str
    level: Level
    where: str
    message: str
    help: str | None
    rule: str | None


class Remarks:
    """Collects diagnostics; those about the whole policy only once."""

    def __init__(self, rule: str | None = None) -> None:
        self.rule = rule
        self.found: list[Remark] = []

    def add(
        self,
        kind: str,
        where: str,
        message: str,
        help_text: str | None = None,
        *,
        rule: str | None = None,
    ) -> None:
        """Add a diagnostic about `rule`, or about the current rule."""
        about = None if kind in _ONCE else rule or self.rule
        self._keep(Remark(kind, KINDS[kind], where, message, help_text, about))

    def take(self, others: "Remarks", rule: str | None) -> None:
        """Add the diagnostics of one rule under its final name `rule`."""
        for remark in others.found:
            self._keep(remark._replace(rule=remark.rule and rule))

    def _keep(self, remark: Remark) -> None:
        if remark.kind in _ONCE and any(remark.kind == known.kind for known in self.found):
            return
        self.found.append(remark)
