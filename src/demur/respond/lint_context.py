"""What a decision demands of the words about it, read off whatever the caller has of it."""

from typing import NamedTuple

from demur.codes.default import default_registry, registry_or_core
from demur.codes.entry import Entry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation, RefusalClass
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal

__all__ = ["Context", "Decided", "context_of"]

# A decision in any form: itself, its record, its refusal, or its code alone.
Decided = Decision | DecisionRecord | Refusal | str

_CRISIS = ReasonCode.CRISIS_ESCALATION


class Context(NamedTuple):
    """The facts of a decision that the checks need. Without one, every field is empty."""

    refusal_class: RefusalClass | None = None
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    crisis: bool = False
    # Codes and rules, which the text must not show.
    names: frozenset[str] = frozenset()


def context_of(decision: Decided | None) -> Context:
    """Return the facts of the decision that the checks need.

    Raises:
        UnknownCodeError: It was given as a code that is not registered.
    """
    if decision is None:
        return Context()
    if isinstance(decision, str):
        return _of_code(default_registry()[decision])
    if isinstance(decision, Refusal):
        return _of_refusal(decision)
    return _of_decision(decision)


def _of_code(entry: Entry) -> Context:
    return Context(
        refusal_class=entry.refusal_class,
        crisis=entry.code == _CRISIS or Obligation.CRISIS_RESOURCES in entry.obligations,
        names=frozenset({str(entry.code)}),
    )


def _of_refusal(refusal: Refusal) -> Context:
    entry = registry_or_core().get(refusal.code)
    known = Context() if entry is None else _of_code(entry)
    return Context(
        refusal_class=refusal.refusal_class,
        crisis=known.crisis or refusal.parent == _CRISIS,
        names=frozenset({refusal.code}),
    )


def _of_decision(decision: Decision | DecisionRecord) -> Context:
    rules = decision.matched_rules if isinstance(decision, DecisionRecord) else ()
    codes = decision.reason_codes
    return Context(
        refusal_class=decision.refusal_class,
        missing=decision.missing,
        constraints=decision.constraints,
        crisis=_CRISIS in codes or Obligation.CRISIS_RESOURCES in decision.obligations,
        names=frozenset(codes) | {rule.rule_id for rule in rules},
    )
