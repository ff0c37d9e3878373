"""What a decision demands of the words about it, read off whatever the caller has of it."""

from typing import NamedTuple

from demur.codes.default import default_registry, registry_or_core
from demur.codes.entry import Entry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation, RefusalClass
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal

__all__ = ["LintContext", "DecisionLike", "make_lint_context"]

# A decision in any form: itself, its record, its refusal, or its code alone.
DecisionLike = Decision | DecisionRecord | Refusal | str

_CRISIS = ReasonCode.CRISIS_ESCALATION


class LintContext(NamedTuple):
    """The facts of a decision that the checks need. Without one, every field is empty."""

    refusal_class: RefusalClass | None = None
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    crisis: bool = False
    # Codes and rules, which the text must not show.
    names: frozenset[str] = frozenset()


def make_lint_context(decision: DecisionLike | None) -> LintContext:
    """Return the facts of the decision that the checks need.

    Raises:
        UnknownCodeError: It was given as a code that is not registered.
    """
    if decision is None:
        return LintContext()
    if isinstance(decision, str):
        return _context_from_code(default_registry()[decision])
    if isinstance(decision, Refusal):
        return _context_from_refusal(decision)
    return _context_from_decision(decision)


def _context_from_code(entry: Entry) -> LintContext:
    return LintContext(
        refusal_class=entry.refusal_class,
        crisis=entry.code == _CRISIS or Obligation.CRISIS_RESOURCES in entry.obligations,
        names=frozenset({str(entry.code)}),
    )


def _context_from_refusal(refusal: Refusal) -> LintContext:
    entry = registry_or_core().get(refusal.code)
    known = LintContext() if entry is None else _context_from_code(entry)
    return LintContext(
        refusal_class=refusal.refusal_class,
        crisis=known.crisis or refusal.parent == _CRISIS,
        names=frozenset({refusal.code}),
    )


def _context_from_decision(decision: Decision | DecisionRecord) -> LintContext:
    rules = decision.matched_rules if isinstance(decision, DecisionRecord) else ()
    codes = decision.reason_codes
    return LintContext(
        refusal_class=decision.refusal_class,
        missing=decision.missing,
        constraints=decision.constraints,
        crisis=_CRISIS in codes or Obligation.CRISIS_RESOURCES in decision.obligations,
        names=frozenset(codes) | {rule.rule_id for rule in rules},
    )
