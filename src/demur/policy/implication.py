"""Decide whether a condition holds wherever others do.

Sound, not complete: a yes is always true, a no may only mean that it was not seen.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from demur.policy.conditions import iter_comparisons
from demur.policy.leaf import FALSE, TRUE, compile_comparison
from demur.policy.operands import scalar_kind
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator

__all__ = [
    "can_apply",
    "split_conjuncts",
    "entails",
    "pinned_values",
    "condition_paths",
    "equality_key",
]

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
            return any(
                isinstance(fact, Compare) and _comparison_implies(fact, goal) for fact in facts
            )
        case All(parts):
            return all(entails(facts, part) for part in parts)
        case AnyOf(parts):
            return _is_stated(facts, goal) or any(entails(facts, part) for part in parts)
        case Not():
            return _is_stated(facts, goal)


def _is_stated(facts: Iterable[Condition], goal: Condition) -> bool:
    return any(equality_key(fact) == equality_key(goal) for fact in facts)


def _comparison_implies(known: Compare, goal: Compare) -> bool:
    """Return whether one comparison implies another."""
    if known.path != goal.path:
        return False
    return equality_key(known) == equality_key(goal) or _is_narrower(known, goal)


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
            and _excludes_all(known, goal)
        )
    same_side = any({known.operator, goal.operator} <= side for side in (_UP, _DOWN))
    return same_side and _bounds_tighter(known, goal)


def _operand_kinds(compare: Compare) -> set[str | None]:
    return {scalar_kind(value) for value in _operand_values(compare.operand)}


def _excludes_all(known: Compare, goal: Compare) -> bool:
    return set(_operand_values(goal.operand)) <= set(_operand_values(known.operand))


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
