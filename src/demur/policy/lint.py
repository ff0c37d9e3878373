"""Lint a valid policy: unreachable rules, fields that requests may omit, weak codes."""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from demur.codes.lint_rules import CODE_RULES, LintLevel, PlaceCertainty, PlaceKind, check_code
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import Problem
from demur.model.finding import Action
from demur.policy.evaluation import finding_blocks, verdict_floor
from demur.policy.implication import (
    entails,
    equality_key,
    find_gaps,
    list_requirements,
    pinned_values,
    split_conjuncts,
)
from demur.policy.policy import Compare, Condition, Operator, Policy, PolicyRule, RuleOutcome
from demur.source.item import line_and_column

_POLICY_PLACE = PlaceKind(PlaceCertainty.CERTAIN)
LINT_LEVELS = {
    "broad-code": CODE_RULES["broad-code"].level,
    "default-allow": LintLevel.WARNING,
    "deprecated-code": CODE_RULES["deprecated-code"].level,
    "duplicate-condition": LintLevel.WARNING,
    "invalid-policy": LintLevel.ERROR,
    "negated-field": LintLevel.ERROR,
    "no-rules": LintLevel.WARNING,
    "shadowed-by-stricter": LintLevel.WARNING,
    "uncovered-field": LintLevel.WARNING,
    "unreachable-rule": LintLevel.ERROR,
}


class PolicyDiagnostic(NamedTuple):
    """A probable mistake. The id in `rule` is stable: reports use it."""

    rule: str
    level: LintLevel
    where: str
    message: str
    help: str | None


_Found = Iterator[PolicyDiagnostic]


class _RuleCover(NamedTuple):
    """Something that applies wherever its parts hold: a rule, or the floor of a finding."""

    name: str
    number: int
    parts: tuple[Condition, ...]
    then: RuleOutcome


_Covers = Iterable[_RuleCover]


def lint_policy(policy: Policy, registry: Registry) -> list[PolicyDiagnostic]:
    """Return the probable mistakes in `policy`, in the order of its lines."""
    diagnostics = [*_check_whole(policy, registry), *_check_gaps(policy)]
    diagnostics += _check_covered_rules(policy, registry)
    for rule in policy.rules:
        diagnostics += _check_codes(rule.then, rule.where, f"rule `{rule.id}`", registry)
    return sorted(diagnostics, key=lambda each: (line_and_column(each.where), each.rule))


def diagnose_problem(problem: Problem) -> PolicyDiagnostic:
    """Return the diagnostic for a problem of a policy that does not load."""
    return _diagnose("invalid-policy", problem.where or "", problem.problem, problem.help)


def _diagnose(rule: str, where: str, message: str, help_text: str | None) -> PolicyDiagnostic:
    return PolicyDiagnostic(rule, LINT_LEVELS[rule], where, message, help_text)


def _check_whole(policy: Policy, registry: Registry) -> _Found:
    if not policy.rules:
        help_text = f"every request gets the default, {policy.default.verdict}"
        yield _diagnose("no-rules", policy.where, "the policy has no rules", help_text)
    if policy.default.verdict is Verdict.ALLOW:
        help_text = "default to ESCALATE or DENY, and allow by rules in ALLOW_PATHS"
        message = "requests that no rule matches are allowed"
        yield _diagnose("default-allow", policy.where, message, help_text)
    yield from _check_codes(policy.default, policy.where, "the default", registry)


def _check_codes(then: RuleOutcome, where: str, who: str, registry: Registry) -> _Found:
    for code in then.reason_codes:
        for found in check_code(code, _POLICY_PLACE, registry):
            yield _diagnose(found.rule, where, f"{who}: {found.message}", found.help)


def _check_gaps(policy: Policy) -> _Found:
    required = list_requirements(policy)
    for rule in policy.rules:
        if rule.shadow or rule.then.verdict is Verdict.ALLOW:
            continue
        for path, negated in sorted(find_gaps(rule, required).items()):
            how = "a negated comparison" if negated else "a comparison"
            message = (
                f"a request without `{path}` passes rule `{rule.id}`: "
                f"{how} with a missing field does not hold"
            )
            help_text = (
                f"ask for it in REQUIREMENTS by `{path}: {{missing: true}}`, "
                f"or say that it is optional by `{path}: {{exists: true}}`"
            )
            kind = "negated-field" if negated else "uncovered-field"
            yield _diagnose(kind, rule.where, message, help_text)


def _check_covered_rules(policy: Policy, registry: Registry) -> _Found:
    """Yield at most one diagnostic for each rule that others cover."""
    live = [(index, rule) for index, rule in enumerate(policy.rules) if not rule.shadow]
    parts = {index: split_conjuncts(rule.condition) for index, rule in live}
    covers = [_RuleCover(f"rule `{rule.id}`", n, parts[n], rule.then) for n, rule in live]
    pinned = [pinned_values(cover.parts) for cover in covers]
    earlier: dict[Hashable, list[PolicyRule]] = {}
    for index, rule in live:
        known = parts[index]
        pins = pinned_values(known)
        near = [cover for cover, needs in zip(covers, pinned, strict=True) if needs <= pins]
        near = [cover for cover in near if cover.number != index]
        over = [cover for cover in near if all(entails(known, part) for part in cover.parts)]
        over += _finding_covers(known, registry)
        twins = earlier.setdefault(equality_key(rule.condition), [])
        diagnostic = _find_unreachable(index, rule, over) or _find_outvoted(rule, over)
        diagnostic = diagnostic or _find_duplicate(rule, twins)
        twins.append(rule)
        if diagnostic is not None:
            yield diagnostic


def _finding_covers(known: Iterable[Condition], registry: Registry) -> _Covers:
    """Yield the verdict floors of the findings that a rule reads.

    A guard may only warn, so a finding covers a rule if even its warning binds.
    """
    for part in known:
        match part:
            # No policy can shadow such a code.
            case Compare("findings.codes", Operator.CONTAINS, code) if finding_blocks(
                code, Action.WARN, registry
            ):
                then = RuleOutcome(verdict_floor(registry[code], Action.WARN), (code,))
                yield _RuleCover(f"the finding `{code}` itself", -1, (part,), then)
            case _:
                pass


def _find_unreachable(index: int, rule: PolicyRule, over: _Covers) -> PolicyDiagnostic | None:
    for cover in over:
        # Of two rules with equal outcomes, only the second is unreachable.
        twin = _adds_nothing(cover.then, rule.then) and cover.number > index
        if _adds_nothing(rule.then, cover.then) and not twin:
            message = (
                f"rule `{rule.id}` can never change anything: {cover.name} matches "
                f"wherever it does, as strictly and with its codes"
            )
            help_text = "remove it, or narrow the other"
            return _diagnose("unreachable-rule", rule.where, message, help_text)
    return None


_LISTS = ("reason_codes", "constraints", "missing", "obligations")


def _adds_nothing(then: RuleOutcome, other: RuleOutcome) -> bool:
    if then.verdict.precedence > other.verdict.precedence or then.approvals > other.approvals:
        return False
    return all(set(getattr(then, field)) <= set(getattr(other, field)) for field in _LISTS)


def _find_outvoted(rule: PolicyRule, over: Iterable[_RuleCover]) -> PolicyDiagnostic | None:
    for cover in over:
        if cover.then.verdict.precedence > rule.then.verdict.precedence:
            message = (
                f"the {rule.then.verdict} of rule `{rule.id}` can never win: {cover.name} "
                f"matches wherever it does and concludes {cover.then.verdict}"
            )
            help_text = "its codes are still reported; narrow the stricter one, or remove this one"
            return _diagnose("shadowed-by-stricter", rule.where, message, help_text)
    return None


def _find_duplicate(rule: PolicyRule, twins: Iterable[PolicyRule]) -> PolicyDiagnostic | None:
    for twin in twins:
        # If one adds nothing to the other, it is reported as unreachable instead.
        if twin.then.verdict is rule.then.verdict and not _adds_nothing(twin.then, rule.then):
            message = f"rules `{twin.id}` and `{rule.id}` have the same condition and verdict"
            return _diagnose("duplicate-condition", rule.where, message, "make one rule of them")
    return None
