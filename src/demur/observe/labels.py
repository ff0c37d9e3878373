"""Labels of metrics and traces, and the refusals of a decision, shared by all exporters.

A label that users or models can choose makes a time series each time it changes. So every
value comes from the registry or from a closed vocabulary, and all others become one value.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, Effect, RefusalClass, Surface, Verdict
from demur.errors import InputError, MissingExtraError
from demur.model.finding import Action
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal

OTHER = "_other"
# The label for a missing class, or for a guard that asked for nothing.
NONE = "none"


class RefusingReason(NamedTuple):
    """A refusing reason: its labels, and its entry if it is registered."""

    code: str
    refusal_class: str
    surface: str
    entry: Entry | None


class MetricLabels:
    """The label values of a registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.codes = (*(e.code for e in registry if e.effect is Effect.REFUSE), OTHER)
        self._codes = frozenset(self.codes)

    # INVARIANT: every label value comes from the registry or a closed vocabulary.
    def code_label(self, code: str) -> str:
        """Return a refusing code as a label."""
        return _known_or_other(self._codes, code)

    @staticmethod
    def verdict_label(verdict: str) -> str:
        """Return a verdict as a label."""
        return _known_or_other(_VERDICTS, verdict)

    @staticmethod
    def output_label(output: str) -> str:
        """Return a decision output as a label."""
        return _known_or_other(_OUTPUTS, output)

    @staticmethod
    def class_label(refusal_class: str | None) -> str:
        """Return a class as a label."""
        return NONE if refusal_class is None else _known_or_other(_CLASSES, refusal_class)

    @staticmethod
    def surface_label(surface: str) -> str:
        """Return a surface as a label."""
        return _known_or_other(_SURFACES, surface)

    @staticmethod
    def action_label(action: str) -> str:
        """Return the action that a guard asked for as a label."""
        return _known_or_other(_ACTIONS, action) if action else NONE

    def iter_reasons(self, record: DecisionRecord) -> Iterator[RefusingReason]:
        """Yield each refusing reason of a decision once, with its surface."""
        surfaces = _finding_surfaces(record) if record.reason_codes else {}
        for code in dict.fromkeys(record.reason_codes):
            entry = self.registry.get(code)
            if entry is None:
                surface = self.surface_label(surfaces.get(code, OTHER))
                yield RefusingReason(OTHER, OTHER, surface, None)
            elif entry.effect is Effect.REFUSE:
                surface = self.surface_label(surfaces.get(code) or _default_surface(entry, record))
                label = self.class_label(entry.refusal_class)
                yield RefusingReason(entry.code, label, surface, entry)


_VERDICTS, _OUTPUTS = frozenset(map(str, Verdict)), frozenset(map(str, DecisionOutput))
_CLASSES, _SURFACES = frozenset(map(str, RefusalClass)), frozenset(map(str, Surface))
_ACTIONS = frozenset(map(str, Action))


def _known_or_other(known: frozenset[str], value: str) -> str:
    return str(value) if value in known else OTHER


def _finding_surfaces(record: DecisionRecord) -> dict[str, str]:
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


def _default_surface(entry: Entry, record: DecisionRecord) -> str:
    """Return the surface of a reason that no guard found."""
    if record.basis == "runtime":
        return Surface.RUNTIME
    # A code of several surfaces that no guard found comes from a policy rule.
    return entry.surfaces[0] if len(entry.surfaces) == 1 else Surface.POLICY


def iter_refusals(record: DecisionRecord, labels: MetricLabels) -> Iterator[Refusal]:
    """Yield the refusals of a decision. Their detail names the decision, and nothing personal.

    Codes that are not registered have no refusal line and are left out.
    """
    for reason in labels.iter_reasons(record):
        if reason.entry is not None:
            yield Refusal.from_code(
                reason.code,
                f"decision {record.decision_id}",
                surface=None if reason.surface == OTHER else reason.surface,
                decision_id=record.decision_id,
                registry=labels.registry,
            )


def require_module(module: str, what: str, extra: str = "observe") -> Any:
    """Return an optional module that `what` needs.

    Raises:
        MissingExtraError: The module is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        problem = f"{what} need the `{package}` package"
        raise MissingExtraError(problem, help=f"pip install 'demur[{extra}]'") from error
