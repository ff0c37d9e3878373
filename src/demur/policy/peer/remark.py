"""What an import has to say: what was left out, what decides otherwise, what to know."""

from enum import StrEnum
from typing import NamedTuple

from demur.errors import DemurError

__all__ = [
    "DIAGNOSTIC_LEVELS",
    "UntranslatableError",
    "ImportLevel",
    "ImportDiagnostic",
    "ImportDiagnostics",
]


class ImportLevel(StrEnum):
    """The level of a diagnostic."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


# Error: something was left out. Warning: it decides or reports differently. Note: no change.
DIAGNOSTIC_LEVELS = {
    "left-out": ImportLevel.ERROR,
    "code-class": ImportLevel.WARNING,
    "code-left-out": ImportLevel.WARNING,
    "code-replaced": ImportLevel.WARNING,
    "ignored-key": ImportLevel.WARNING,
    "mode": ImportLevel.WARNING,
    "never-matched": ImportLevel.WARNING,
    "on-trial": ImportLevel.WARNING,
    "precedence": ImportLevel.WARNING,
    "rates": ImportLevel.WARNING,
    "renamed-rule": ImportLevel.WARNING,
    "unequal": ImportLevel.WARNING,
    "verdict": ImportLevel.WARNING,
    "words-left-out": ImportLevel.WARNING,
    "code-renamed": ImportLevel.NOTE,
    "evidence-needed": ImportLevel.NOTE,
    "kinds": ImportLevel.NOTE,
    "moved": ImportLevel.NOTE,
    "never-read": ImportLevel.NOTE,
}
# These hold for the whole policy and are reported once, at the first place.
_ONCE = frozenset({"kinds", "precedence", "rates"})


class UntranslatableError(DemurError):
    """A part of a Lumyn policy that cannot be translated."""


class ImportDiagnostic(NamedTuple):
    """One difference, its place, and the rule that it concerns."""

    kind: str
    level: ImportLevel
    where: str
    message: str
    help: str | None
    rule: str | None


class ImportDiagnostics:
    """Collects diagnostics; those about the whole policy only once."""

    def __init__(self, rule: str | None = None) -> None:
        self.rule = rule
        self.found: list[ImportDiagnostic] = []

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
        self._append_once(
            ImportDiagnostic(kind, DIAGNOSTIC_LEVELS[kind], where, message, help_text, about)
        )

    def add_all(self, others: "ImportDiagnostics", rule: str | None) -> None:
        """Add the diagnostics of one rule under its final name `rule`."""
        for remark in others.found:
            self._append_once(remark._replace(rule=remark.rule and rule))

    def _append_once(self, remark: ImportDiagnostic) -> None:
        if remark.kind in _ONCE and any(remark.kind == known.kind for known in self.found):
            return
        self.found.append(remark)
