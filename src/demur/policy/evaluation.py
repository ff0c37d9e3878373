"""Combine matched rules, findings and invalid facts into the strictest verdict."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, RefusalClass, Verdict
from demur.model.finding import Action, Finding
from demur.policy.policy import RuleOutcome, Policy, PolicyRule

__all__ = ["Evaluation", "InvalidFact", "combine_outcomes", "verdict_floor"]


class InvalidFact(NamedTuple):
    """A fact that a rule compares and that cannot be used."""

    rule_id: str
    path: str


class Evaluation(NamedTuple):
    """The verdict of a policy and everything that led to it."""

    verdict: Verdict
    reason_codes: tuple[str, ...]
    matched_rules: tuple[str, ...]
    shadow_rules: tuple[str, ...] = ()
    shadowed_codes: tuple[str, ...] = ()
    invalid: tuple[InvalidFact, ...] = ()
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    defaulted: bool = False


def verdict_floor(entry: Entry, action: Action = Action.BLOCK) -> Verdict:
    """Return the least strict verdict that a finding of this code allows."""
    if not entry.decided:
        return Verdict.ABSTAIN
    if entry.refusal_class is None:
        return Verdict.ALLOW
    hard = entry.refusal_class is RefusalClass.HARD_BLOCK
    return Verdict.DENY if hard and action is Action.BLOCK else Verdict.ESCALATE


def combine_outcomes(
    policy: Policy,
    matched: Sequence[PolicyRule],
    invalid: Sequence[InvalidFact],
    findings: Iterable[Finding],
    registry: Registry,
) -> Evaluation:
    """Return the evaluation of matched rules, invalid facts and findings together."""
    counted = [rule for rule in matched if not rule.shadow]
    # INVARIANT: adding a finding never relaxes a decision.
    defaulted = all(rule.reads_findings for rule in counted)
    outcomes = [rule.then for rule in counted]
    if invalid:
        paths = tuple(dict.fromkeys(fact.path for fact in invalid))
        outcomes.append(RuleOutcome(Verdict.ABSTAIN, ("EVIDENCE_INVALID",), missing=paths))
    if defaulted:
        outcomes.append(policy.default)
    shadows = {shadow.code for shadow in policy.shadows}
    shadowed: dict[str, None] = {}
    for finding in findings:
        entry = registry[finding.code]
        # A code that could not be judged or that has obligations is never just a warning.
        if finding.action is Action.WARN and entry.decided and not entry.obligations:
            continue
        if finding.code in shadows:
            shadowed[finding.code] = None
        else:
            outcomes.append(RuleOutcome(verdict_floor(entry, finding.action), (finding.code,)))
    verdict = max((outcome.verdict for outcome in outcomes), key=lambda v: v.precedence)
    return Evaluation(
        verdict=verdict,
        reason_codes=_merge_unique(outcome.reason_codes for outcome in outcomes),
        matched_rules=tuple(rule.id for rule in counted),
        shadow_rules=tuple(rule.id for rule in matched if rule.shadow),
        shadowed_codes=tuple(shadowed),
        invalid=tuple(invalid),
        constraints=_merge_unique(outcome.constraints for outcome in outcomes),
        missing=_merge_unique(outcome.missing for outcome in outcomes),
        obligations=tuple(
            duty for duty in Obligation if any(duty in o.obligations for o in outcomes)
        ),
        defaulted=defaulted,
    )


def _merge_unique(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))
