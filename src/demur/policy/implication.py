"""Decide whether a condition holds wherever others do.

Sound, not complete: a yes is always true, a no may only mean that it was not seen.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from demur.policy.conditions import compares
from demur.policy.leaf import FALSE, TRUE, leaf
from demur.policy.operands import kind_of
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator

__all__ = ["can_apply", "conjuncts", "entails", "fixed", "paths", "same_as"]

_PRESENCE = {Operator.EXISTS, Operator.MISSING}
_UP = {Operator.GT, Operator.GTE}
_DOWN = {Operator.LT, Operator.LTE}
_EXCEPT = {Operator.NE, Operator.NOT_IN}
_STRICT = {Operator.GT, Operator.LT}


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """Return the parts that must all hold for the condition to hold."""
    if isinstance(condition, All):
        return tuple(inner for part in condition.parts for inner in conjuncts(part))
    return (condition,)


def paths(condition: Condition) -> frozenset[str]:
    """Return the fields that a condition reads."""
    return frozenset(compare.path for compare in compares(condition))


def same_as(condition: Condition) -> Hashable:
    """Return a key that ignores the order of the condition's parts."""
    match condition:
        case Compare(path, operator, operand):
            # True equals 1 in Python, but not in a policy.
            values = frozenset((kind_of(value), value) for value in _values(operand))
            return (path, operator, values)
        case Not(part):
            return ("not", same_as(part))
        case AnyOf(parts):
            return _group("any", parts)
        case All():
            return _group("all", conjuncts(condition))


def _group(name: str, parts: Iterable[Condition]) -> Hashable:
    keys = frozenset(map(same_as, parts))
    return (name, keys) if len(keys) != 1 else next(iter(keys))


def _values(operand: Any) -> tuple[Any, ...]:
    return operand if isinstance(operand, tuple) else (operand,)


def fixed(parts: Iterable[Condition]) -> frozenset[Hashable]:
    """Return the fields that the parts pin to one value, with the value.

    A quick first check: no condition entails another value of a pinned field.
    """
    return frozenset(
        (part.path, kind_of(value), value)
        for part in parts
        if isinstance(part, Compare) and part.operator in {Operator.EQ, Operator.IN}
        for value in _values(part.operand)
        if len(_values(part.operand)) == 1
    )


def entails(known: Iterable[Condition], goal: Condition) -> bool:
    """Return whether `goal` provably holds wherever all of `known` hold."""
    # INVARIANT: what is entailed holds wherever everything known holds.
    facts = tuple(known)
    match goal:
        case Compare():
            return any(isinstance(fact, Compare) and _implies(fact, goal) for fact in facts)
        case All(parts):
            return all(entails(facts, part) for part in parts)
        case AnyOf(parts):
            return _stands(facts, goal) or any(entails(facts, part) for part in parts)
        case Not():
            return _stands(facts, goal)


def _stands(facts: Iterable[Condition], goal: Condition) -> bool:
    return any(same_as(fact) == same_as(goal) for fact in facts)


def _implies(known: Compare, goal: Compare) -> bool:
    """Return whether one comparison implies another."""
    if known.path != goal.path:
        return False
    return same_as(known) == same_as(goal) or _is_narrower(known, goal)


def _is_narrower(known: Compare, goal: Compare) -> bool:
    if known.operator is Operator.MISSING:
        return False
    if goal.operator in _PRESENCE:
        return goal.operator is Operator.EXISTS
    if known.operator in {Operator.EQ, Operator.IN}:
        test = leaf(goal)
        return all(test(value) == TRUE for value in _values(known.operand))
    if known.operator in _EXCEPT:
        return goal.operator in _EXCEPT and _kinds(goal) == _kinds(known) and _excludes(known, goal)
    same_side = any({known.operator, goal.operator} <= side for side in (_UP, _DOWN))
    return same_side and _bounds(known, goal)


def _kinds(compare: Compare) -> set[str | None]:
    return {kind_of(value) for value in _values(compare.operand)}


def _excludes(known: Compare, goal: Compare) -> bool:
    return set(_values(goal.operand)) <= set(_values(known.operand))


def _bounds(known: Compare, goal: Compare) -> bool:
    if known.operand == goal.operand:
        return known.operator in _STRICT or goal.operator not in _STRICT
    return bool((known.operand > goal.operand) == (known.operator in _UP))


def can_apply(condition: Condition, action: str) -> bool:
    """Return whether a rule with this condition can match such an action."""
    return _settled(condition, action) is not False


def _settled(condition: Condition, action: str) -> bool | None:
    """Return the condition's truth if the action alone decides it, else None."""
    match condition:
        case Compare(path):
            state = leaf(condition)(action) if path == "action.type" else None
            return {TRUE: True, FALSE: False}.get(state) if state is not None else None
        case Not(part):
            inner = _settled(part, action)
            return None if inner is None else not inner
        case All(parts):
            return _fold(_all(parts, action), settles=False)
        case AnyOf(parts):
            return _fold(_all(parts, action), settles=True)


def _all(parts: Iterable[Condition], action: str) -> Iterator[bool | None]:
    return (_settled(part, action) for part in parts)


def _fold(states: Iterable[bool | None], *, settles: bool) -> bool | None:
    """Combine truths of parts, where one part equal to `settles` decides."""
    seen = set(states)
    if settles in seen:
        return settles
    return None if None in seen else not settles
