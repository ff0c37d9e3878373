"""Reason about conditions: whether one implies another, and which fields a request may omit.

Implication is sound, not complete: a yes is always true, a no may mean that it was not seen.
A comparison with a missing field does not hold. So a rule that should stop an action does not
match where its field is left out, unless a requirement asks for the field.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from demur.policy.conditions import SIGNAL_ROOT, iter_comparisons
from demur.policy.facts import FALSE, TRUE, compile_comparison, scalar_kind
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

_PRESENCE = {Operator.EXISTS, Operator.MISSING}
_UP = {Operator.GT, Operator.GTE}
_DOWN = {Operator.LT, Operator.LTE}
_EXCEPT = {Operator.NE, Operator.NOT_IN}
_STRICT = {Operator.GT, Operator.LT}


def split_conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """Return the parts that must all hold for the condition to hold."""
    if isinstance(condition, All):
        return tuple(inner for part in condition.parts for inner in split_conjuncts(part))
    return (condition,)


def condition_paths(condition: Condition) -> frozenset[str]:
    """Return the fields that a condition reads."""
    return frozenset(compare.path for compare in iter_comparisons(condition))


def equality_key(condition: Condition) -> Hashable:
    """Return a key that ignores the order of the condition's parts."""
    match condition:
        case Compare(path, operator, operand):
            # True equals 1 in Python, but not in a policy.
            values = frozenset((scalar_kind(value), value) for value in _operand_values(operand))
            return (path, operator, values)
        case Not(part):
            return ("not", equality_key(part))
        case AnyOf(parts):
            return _group_key("any", parts)
        case All():
            return _group_key("all", split_conjuncts(condition))


def _group_key(name: str, parts: Iterable[Condition]) -> Hashable:
    keys = frozenset(map(equality_key, parts))
    return (name, keys) if len(keys) != 1 else next(iter(keys))


def _operand_values(operand: Any) -> tuple[Any, ...]:
    return operand if isinstance(operand, tuple) else (operand,)


def pinned_values(parts: Iterable[Condition]) -> frozenset[Hashable]:
    """Return the fields that the parts pin to one value, with the value.

    A quick first check: no condition entails another value of a pinned field.
    """
    return frozenset(
        (part.path, scalar_kind(value), value)
        for part in parts
        if isinstance(part, Compare) and part.operator in {Operator.EQ, Operator.IN}
        for value in _operand_values(part.operand)
        if len(_operand_values(part.operand)) == 1
    )


def entails(known: Iterable[Condition], goal: Condition) -> bool:
    """Return whether `goal` provably holds wherever all of `known` hold."""
    # INVARIANT: what is entailed holds wherever everything known holds.
    facts = tuple(known)
    match goal:
        case Compare():
            same = [fact for fact in facts if isinstance(fact, Compare) and fact.path == goal.path]
            return _is_stated(same, goal) or any(_is_narrower(fact, goal) for fact in same)
        case All(parts):
            return all(entails(facts, part) for part in parts)
        case AnyOf(parts):
            return _is_stated(facts, goal) or any(entails(facts, part) for part in parts)
        case Not():
            return _is_stated(facts, goal)


def _is_stated(facts: Iterable[Condition], goal: Condition) -> bool:
    return any(equality_key(fact) == equality_key(goal) for fact in facts)


def _is_narrower(known: Compare, goal: Compare) -> bool:
    if known.operator is Operator.MISSING:
        return False
    if goal.operator in _PRESENCE:
        return goal.operator is Operator.EXISTS
    if known.operator in {Operator.EQ, Operator.IN}:
        test = compile_comparison(goal)
        return all(test(value) == TRUE for value in _operand_values(known.operand))
    if known.operator in _EXCEPT:
        return (
            goal.operator in _EXCEPT
            and _operand_kinds(goal) == _operand_kinds(known)
            and set(_operand_values(goal.operand)) <= set(_operand_values(known.operand))
        )
    same_side = any({known.operator, goal.operator} <= side for side in (_UP, _DOWN))
    return same_side and _bounds_tighter(known, goal)


def _operand_kinds(compare: Compare) -> set[str | None]:
    return {scalar_kind(value) for value in _operand_values(compare.operand)}


def _bounds_tighter(known: Compare, goal: Compare) -> bool:
    if known.operand == goal.operand:
        return known.operator in _STRICT or goal.operator not in _STRICT
    return bool((known.operand > goal.operand) == (known.operator in _UP))


def can_apply(condition: Condition, action: str) -> bool:
    """Return whether a rule with this condition can match such an action."""
    return _truth_for_action(condition, action) is not False


def _truth_for_action(condition: Condition, action: str) -> bool | None:
    """Return the condition's truth if the action alone decides it, else None."""
    match condition:
        case Compare(path):
            state = compile_comparison(condition)(action) if path == "action.type" else None
            return {TRUE: True, FALSE: False}.get(state) if state is not None else None
        case Not(part):
            inner = _truth_for_action(part, action)
            return None if inner is None else not inner
        case All(parts):
            return _combine_truths(_truths_for_action(parts, action), settles=False)
        case AnyOf(parts):
            return _combine_truths(_truths_for_action(parts, action), settles=True)


def _truths_for_action(parts: Iterable[Condition], action: str) -> Iterator[bool | None]:
    return (_truth_for_action(part, action) for part in parts)


def _combine_truths(states: Iterable[bool | None], *, settles: bool) -> bool | None:
    """Combine truths of parts, where one part equal to `settles` decides."""
    seen = set(states)
    if settles in seen:
        return settles
    return None if None in seen else not settles


_ALWAYS_THERE = frozenset({"action.type", "findings.codes", "findings.count", "findings.surfaces"})
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
    asked = _ALWAYS_THERE | (condition_paths(rule.condition) - exposed.keys())
    # A requirement may rely on fields that another one asks for.
    while found := {
        path
        for path in exposed.keys() - asked
        if any(_asks_for(parts, path, own, asked) for parts in required)
    }:
        asked |= found
    # A rule that needs a missing signal is not passed: the request is not judged.
    return {
        path: negated
        for path, negated in exposed.items()
        if path not in asked and not path.startswith(SIGNAL_ROOT)
    }


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


def _merge_exposed(parts: _Parts, settled: set[str | None], *, negated: bool) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for part in parts:
        for path, negative in _exposed_paths(part, negated=negated).items():
            if path not in settled:
                found[path] = found.get(path, False) or negative
    return found
