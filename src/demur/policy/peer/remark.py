"""What an import has to say: what was left out, what decides otherwise, what to know."""

from enum import StrEnum
from typing import NamedTuple

from demur.errors import DemurError

__all__ = ["KINDS", "CannotCarryError", "Level", "Remark", "Remarks"]


class Level(StrEnum):
    """How much a remark weighs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


# An error leaves something out, a warning decides or reports otherwise, a note changes nothing.
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
# What holds for the whole policy is said where it is first met.
_ONCE = frozenset({"kinds", "precedence", "rates"})


class CannotCarryError(DemurError):
    """Something that has no form in a policy of demur."""


class Remark(NamedTuple):
    """One thing that differs, where it was written, and the rule that it is about."""

    kind: str
    level: Level
    where: str
    message: str
    help: str | None
    rule: str | None


class Remarks:
    """Collects remarks, those about the whole policy once."""

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
        """Remark something about `rule`, or about the one that is being read."""
        about = None if kind in _ONCE else rule or self.rule
        self._keep(Remark(kind, KINDS[kind], where, message, help_text, about))

    def take(self, others: "Remarks", rule: str | None) -> None:
        """Add what was remarked apart, now that its rule has the name `rule`."""
        for remark in others.found:
            self._keep(remark._replace(rule=remark.rule and rule))

    def _keep(self, remark: Remark) -> None:
        if remark.kind in _ONCE and any(remark.kind == known.kind for known in self.found):
            return
        self.found.append(remark)
