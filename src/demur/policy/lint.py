"""Lint a valid policy: unreachable rules, fields that requests may omit, weak codes."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.usage.rules import RULES as CODE_RULES
from demur.codes.usage.rules import Level, Place, Trust, judge
from demur.codes.vocabulary import Verdict
from demur.errors import Problem
from demur.policy.evaluation import floor
from demur.policy.gaps import gaps, requirements
from demur.policy.implication import conjuncts, entails, fixed, same_as
from demur.policy.policy import Compare, Condition, Operator, Outcome, Policy, Rule

__all__ = ["LINTS", "PolicyRemark", "invalid_policy", "lint_policy"]

_PLACE = Place(Trust.CERTAIN)
LINTS = {
    "broad-code": CODE_RULES["broad-code"].level,
    "default-allow": Level.WARNING,
    "deprecated-code": CODE_RULES["deprecated-code"].level,
    "duplicate-condition": Level.WARNING,
    "invalid-policy": Level.ERROR,
    "negated-field": Level.ERROR,
    "no-rules": Level.WARNING,
    "shadowed-by-stricter": Level.WARNING,
    "uncovered-field": Level.WARNING,
    "unreachable-rule": Level.ERROR,
}


class PolicyRemark(NamedTuple):
    """A probable mistake. The id in `rule` is stable: reports use it."""

    rule: str
    level: Level
    where: str
    message: str
    help: str | None


class _Cover(NamedTuple):
    """Something that applies wherever its parts hold: a rule, or the floor of a finding."""

    name: str
    number: int
    parts: tuple[Condition, ...]
    then: Outcome


def lint_policy(policy: Policy, registry: Registry) -> list[PolicyRemark]:
    """Return the probable mistakes in `policy`, in the order of its lines."""
    remarks = [
        *_whole(policy, registry),
        *_covered(policy, registry),
        *_gaps(policy),
        *_rule_codes(policy, registry),
    ]
    return sorted(remarks, key=lambda remark: (_position(remark.where), remark.rule))


def invalid_policy(problem: Problem) -> PolicyRemark:
    """Return the diagnostic for a problem of a policy that does not load."""
    return _remark("invalid-policy", problem.where or "", problem.problem, problem.help)


def _remark(rule: str, where: str, message: str, help_text: str | None) -> PolicyRemark:
    return PolicyRemark(rule, LINTS[rule], where, message, help_text)


def _position(where: str) -> tuple[int, ...]:
    """Return line and column of a place; a whole file comes before its lines."""
    return tuple(int(part) for part in where.split(":")[-2:] if part.isdecimal())


def _whole(policy: Policy, registry: Registry) -> Iterator[PolicyRemark]:
    if not policy.rules:
        help_text = f"every request gets the default, {policy.default.verdict}"
        yield _remark("no-rules", policy.where, "the policy has no rules", help_text)
    if policy.default.verdict is Verdict.ALLOW:
        help_text = "default to ESCALATE or DENY, and allow by rules in ALLOW_PATHS"
        message = "requests that no rule matches are allowed"
        yield _remark("default-allow", policy.where, message, help_text)
    yield from _codes(policy.default, policy.where, "the default", registry)


def _rule_codes(policy: Policy, registry: Registry) -> Iterator[PolicyRemark]:
    for rule in policy.rules:
        yield from _codes(rule.then, rule.where, f"rule `{rule.id}`", registry)


def _codes(then: Outcome, where: str, who: str, registry: Registry) -> Iterator[PolicyRemark]:
    for code in then.reason_codes:
        for found in judge(code, _PLACE, registry):
            yield _remark(found.rule, where, f"{who}: {found.message}", found.help)


def _gaps(policy: Policy) -> Iterator[PolicyRemark]:
    required = requirements(policy)
    for rule in policy.rules:
        if rule.shadow or rule.then.verdict is Verdict.ALLOW:
            continue
        for path, negated in sorted(gaps(rule, required).items()):
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
            yield _remark(kind, rule.where, message, help_text)


def _covered(policy: Policy, registry: Registry) -> Iterator[PolicyRemark]:
    """Yield at most one diagnostic for each rule that others cover."""
    live = [(index, rule) for index, rule in enumerate(policy.rules) if not rule.shadow]
    covers = [
        _Cover(f"rule `{rule.id}`", index, conjuncts(rule.condition), rule.then)
        for index, rule in live
    ]
    pinned = [fixed(cover.parts) for cover in covers]
    earlier: dict[Hashable, list[Rule]] = {}
    for index, rule in live:
        known = conjuncts(rule.condition)
        pins = fixed(known)
        near = [cover for cover, needs in zip(covers, pinned, strict=True) if needs <= pins]
        over = [cover for cover in near if cover.number != index and _speaks(cover, known)]
        over += _floors(known, policy, registry)
        twins = earlier.setdefault(same_as(rule.condition), [])
        remark = _dead(index, rule, over) or _outvoted(rule, over) or _twin(rule, twins)
        twins.append(rule)
        if remark is not None:
            yield remark


def _speaks(cover: _Cover, known: Sequence[Condition]) -> bool:
    return all(entails(known, part) for part in cover.parts)


def _floors(known: Iterable[Condition], policy: Policy, registry: Registry) -> Iterator[_Cover]:
    """Yield the verdict floors of the findings that a rule reads."""
    shadowed = {shadow.code for shadow in policy.shadows}
    for part in known:
        match part:
            case Compare("findings.codes", Operator.CONTAINS, code) if code not in shadowed:
                then = Outcome(floor(registry[code]), (code,))
                yield _Cover(f"the finding `{code}` itself", -1, (part,), then)
            case _:
                pass


def _dead(index: int, rule: Rule, over: Iterable[_Cover]) -> PolicyRemark | None:
    for cover in over:
        # Of two rules with equal outcomes, only the second is unreachable.
        twin = _adds_nothing(cover.then, rule.then) and cover.number > index
        if _adds_nothing(rule.then, cover.then) and not twin:
            message = (
                f"rule `{rule.id}` can never change anything: {cover.name} matches "
                f"wherever it does, as strictly and with its codes"
            )
            return _remark(
                "unreachable-rule", rule.where, message, "remove it, or narrow the other"
            )
    return None


def _adds_nothing(then: Outcome, other: Outcome) -> bool:
    return then.verdict.precedence <= other.verdict.precedence and all(
        set(getattr(then, field)) <= set(getattr(other, field)) for field in Outcome._fields[1:]
    )


def _outvoted(rule: Rule, over: Iterable[_Cover]) -> PolicyRemark | None:
    for cover in over:
        if cover.then.verdict.precedence > rule.then.verdict.precedence:
            message = (
                f"the {rule.then.verdict} of rule `{rule.id}` can never win: {cover.name} "
                f"matches wherever it does and concludes {cover.then.verdict}"
            )
            help_text = "its codes are still reported; narrow the stricter one, or remove this one"
            return _remark("shadowed-by-stricter", rule.where, message, help_text)
    return None


def _twin(rule: Rule, twins: Iterable[Rule]) -> PolicyRemark | None:
    for twin in twins:
        # If one adds nothing to the other, it is reported as unreachable instead.
        if twin.then.verdict is rule.then.verdict and not _adds_nothing(twin.then, rule.then):
            message = f"rules `{twin.id}` and `{rule.id}` have the same condition and verdict"
            return _remark("duplicate-condition", rule.where, message, "make one rule of them")
    return None
