"""Labels: what a metric or a trace may be called by, whatever comes in.

A label that users or models can choose makes a time series each time it changes. So every
value comes from the registry or from a closed vocabulary, and all else is one value.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, Effect, RefusalClass, Surface, Verdict
from demur.errors import InputError
from demur.model.finding import Action
from demur.model.record import DecisionRecord

__all__ = ["NONE", "OTHER", "Labels", "Reason"]

OTHER = "_other"
# The label for a missing class, or for a guard that asked for nothing.
NONE = "none"


class Reason(NamedTuple):
    """A refusing reason: its labels, and its entry if it is registered."""

    code: str
    refusal_class: str
    surface: str
    entry: Entry | None


class Labels:
    """The label values of a registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.codes = (*(e.code for e in registry if e.effect is Effect.REFUSE), OTHER)
        self._codes = frozenset(self.codes)

    # INVARIANT: every label value comes from the registry or a closed vocabulary.
    def code(self, code: str) -> str:
        """Return a refusing code as a label."""
        return _one_of(self._codes, code)

    @staticmethod
    def verdict(verdict: str) -> str:
        """Return a verdict as a label."""
        return _one_of(_VERDICTS, verdict)

    @staticmethod
    def output(output: str) -> str:
        """Return a decision output as a label."""
        return _one_of(_OUTPUTS, output)

    @staticmethod
    def refusal_class(refusal_class: str | None) -> str:
        """Return a class as a label."""
        return NONE if refusal_class is None else _one_of(_CLASSES, refusal_class)

    @staticmethod
    def surface(surface: str) -> str:
        """Return a surface as a label."""
        return _one_of(_SURFACES, surface)

    @staticmethod
    def action(action: str) -> str:
        """Return the action that a guard asked for as a label."""
        return _one_of(_ACTIONS, action) if action else NONE

    def reasons(self, record: DecisionRecord) -> Iterator[Reason]:
        """Yield each refusing reason of a decision once, with its surface."""
        seen = _surfaces(record) if record.reason_codes else {}
        for code in dict.fromkeys(record.reason_codes):
            entry = self.registry.get(code)
            if entry is None:
                yield Reason(OTHER, OTHER, self.surface(seen.get(code, OTHER)), None)
            elif entry.effect is Effect.REFUSE:
                surface = self.surface(seen.get(code) or _usual(entry, record))
                yield Reason(entry.code, self.refusal_class(entry.refusal_class), surface, entry)


def _words(words: type[StrEnum]) -> dict[str, str]:
    return {str(word): str(word) for word in words}


_VERDICTS, _OUTPUTS, _CLASSES = _words(Verdict), _words(DecisionOutput), _words(RefusalClass)
_SURFACES, _ACTIONS = _words(Surface), _words(Action)


def _one_of(known: dict[str, str] | frozenset[str], value: str) -> str:
    return str(value) if value in known else OTHER


def _surfaces(record: DecisionRecord) -> dict[str, str]:
    """Return the surface on which guards first found each code."""
    # Records without findings omit the field, and most have none: skip decoding them.
    if record.sealed is None or b'"findings"' not in record.sealed:
        return {}
    try:
        personal = record.personal
    except InputError:
        return {}
    findings = () if personal is None else personal.findings
    return {finding.code: str(finding.surface) for finding in reversed(findings)}


def _usual(entry: Entry, record: DecisionRecord) -> str:
    """Return the surface of a reason that no guard found."""
    if record.basis == "runtime":
        return Surface.RUNTIME
    # A code of several surfaces that no guard found comes from a policy rule.
    return entry.surfaces[0] if len(entry.surfaces) == 1 else Surface.POLICY
