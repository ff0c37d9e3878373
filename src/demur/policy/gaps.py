"""Fields that a rule compares and that a request may leave out without anybody asking.

A comparison with a missing field does not hold. So a rule that should stop something
says nothing where its field is left out, unless a requirement asks for the field.
"""

from collections.abc import Iterator, Mapping, Sequence

from demur.policy.implication import split_conjuncts, entails, condition_paths
from demur.policy.policy import (
    All,
    AnyOf,
    Compare,
    Condition,
    Not,
    Operator,
    Policy,
    PolicyRule,
    Stage,
)

__all__ = ["find_gaps", "list_requirements"]

_ALWAYS_THERE = frozenset(
    {"action.type", "findings.codes", "findings.count", "findings.surfaces"},
)
_AMOUNT, _CURRENCY = "action.amount.value", "action.amount.currency"
# An amount in dollars is missing only if both halves are, and unusable if one is.
_ASKED_BY = {
    "amount_usd": {"amount_usd", _AMOUNT, _CURRENCY},
    _AMOUNT: {_AMOUNT, "amount_usd"},
    _CURRENCY: {_CURRENCY, "amount_usd"},
}
_NEGATIVE = {Operator.NE, Operator.NOT_IN}

_Parts = tuple[Condition, ...]


def list_requirements(policy: Policy) -> list[_Parts]:
    """Return each way a requirement of the policy can match, as parts that must all hold."""
    return [
        parts
        for rule in policy.rules
        if rule.stage is Stage.REQUIREMENTS and not rule.shadow
        for parts in _matching_ways(rule.condition)
    ]


def _matching_ways(condition: Condition) -> Iterator[_Parts]:
    whole = split_conjuncts(condition)
    yield whole
    for index, part in enumerate(whole):
        if isinstance(part, AnyOf):
            for branch in part.parts:
                yield (*whole[:index], *split_conjuncts(branch), *whole[index + 1 :])


def find_gaps(rule: PolicyRule, required: Sequence[_Parts]) -> Mapping[str, bool]:
    """Return the fields that a request may omit unnoticed; true if a negation reads the field."""
    # INVARIANT: a rule without gaps is never passed by leaving something out.
    exposed = _exposed_paths(rule.condition, negated=False)
    own = split_conjuncts(rule.condition)
    asked = _ALWAYS_THERE | {
        path for path in condition_paths(rule.condition) if path not in exposed
    }
    # A requirement may rely on fields that another one asks for.
    while found := {
        path
        for path in exposed.keys() - asked
        if any(_asks_for(parts, path, own, asked) for parts in required)
    }:
        asked |= found
    return {path: negated for path, negated in exposed.items() if path not in asked}


def _asks_for(parts: _Parts, path: str, own: _Parts, asked: frozenset[str]) -> bool:
    """Return whether these parts hold where `path` is missing and the rule could match."""
    given = [part for part in own if condition_paths(part) <= asked]
    others = [part for part in parts if _missing_path(part) not in _ASKED_BY.get(path, {path})]
    return len(others) < len(parts) and all(entails(given, part) for part in others)


def _missing_path(condition: Condition) -> str | None:
    """Return the field, if the condition only says that it is missing."""
    match condition:
        case Compare(path, Operator.MISSING) | Not(Compare(path, Operator.EXISTS)):
            return path
        case _:
            return None


def _present_path(condition: Condition) -> str | None:
    match condition:
        case Compare(path, Operator.EXISTS) | Not(Compare(path, Operator.MISSING)):
            return path
        case _:
            return None


def _exposed_paths(condition: Condition, *, negated: bool) -> dict[str, bool]:
    """Return the fields without which the condition does not hold; true if negated.

    Fields whose absence the condition itself handles are left out.
    """
    match condition:
        case Compare(_, Operator.EXISTS | Operator.MISSING, _):
            return {}
        case Compare(path, operator):
            return {path: negated != (operator in _NEGATIVE)}
        case Not(part):
            return _exposed_paths(part, negated=not negated)
        case All():
            parts = split_conjuncts(condition)
            return _merge_exposed(parts, {_present_path(part) for part in parts}, negated=negated)
        case AnyOf(parts):
            return _merge_exposed(parts, {_missing_path(part) for part in parts}, negated=negated)


def _merge_exposed(
    parts: Sequence[Condition], settled: set[str | None], *, negated: bool
) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for part in parts:
        for path, negative in _exposed_paths(part, negated=negated).items():
            if path not in settled:
                found[path] = found.get(path, False) or negative
    return found
