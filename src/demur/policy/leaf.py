"""Compare one fact: true, false, missing, or impossible to judge.

The four states order so that the least decides among all parts of a conjunction:
one false part settles it, then one that cannot be judged, then one that is missing.
"""

from collections.abc import Callable
from typing import Any

import re2

from demur.policy.facts import MISSING, UNUSABLE
from demur.policy.operands import scalar_kind
from demur.policy.policy import Compare, Operator

__all__ = ["FALSE", "INVALID", "MISSED", "TRUE", "compile_comparison"]

FALSE, INVALID, MISSED, TRUE = 0, 1, 2, 3

_ORDERINGS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.GT: lambda fact, operand: fact > operand,
    Operator.GTE: lambda fact, operand: fact >= operand,
    Operator.LT: lambda fact, operand: fact < operand,
    Operator.LTE: lambda fact, operand: fact <= operand,
}
_TEXT_TESTS: dict[Operator, Callable[[str, Any], bool | None]] = {
    Operator.STARTS_WITH: lambda fact, operand: fact.startswith(operand),
    Operator.MATCHES: lambda fact, operand: _search_pattern(operand, fact),
}


def compile_comparison(compare: Compare) -> Callable[[Any], int]:
    """Return the function from a fact to the state of the comparison."""
    operator, operand = compare.operator, compare.operand
    if operator is Operator.EXISTS:
        return _presence_test(present=TRUE, absent=FALSE)
    if operator is Operator.MISSING:
        return _presence_test(present=FALSE, absent=TRUE)
    if operator is Operator.MATCHES:
        operand = re2.compile(operand)
    test = _value_test(operator, operand)

    def state(fact: Any) -> int:
        if fact is MISSING:
            return MISSED
        # An unusable fact has no kind, so no test applies to it.
        holds = test(fact)
        return INVALID if holds is None else TRUE if holds else FALSE

    return state


def _presence_test(*, present: int, absent: int) -> Callable[[Any], int]:
    def state(fact: Any) -> int:
        if fact is MISSING:
            return absent
        return INVALID if fact is UNUSABLE else present

    return state


def _value_test(operator: Operator, operand: Any) -> Callable[[Any], bool | None]:
    """Return the test of a usable fact: whether it holds, or None if the types do not fit."""
    if operator in _ORDERINGS:
        order = _ORDERINGS[operator]
        return lambda fact: order(fact, operand) if scalar_kind(fact) == "number" else None
    if operator in _TEXT_TESTS:
        test = _TEXT_TESTS[operator]
        return lambda fact: test(fact, operand) if isinstance(fact, str) else None
    if operator is Operator.CONTAINS:
        return lambda fact: _contains_value(fact, operand)
    values = operand if isinstance(operand, tuple) else (operand,)
    kind, wanted = scalar_kind(values[0]), operator in {Operator.EQ, Operator.IN}
    return lambda fact: ((fact in values) is wanted) if scalar_kind(fact) == kind else None


def _search_pattern(pattern: Any, fact: str) -> bool | None:
    try:
        return pattern.search(fact) is not None
    except UnicodeEncodeError:
        # RE2 cannot encode a lone surrogate, so the fact cannot be judged.
        return None


def _contains_value(fact: Any, operand: Any) -> bool | None:
    if isinstance(fact, str):
        return operand in fact if isinstance(operand, str) else None
    if not isinstance(fact, list | tuple):
        return None
    kinds = [scalar_kind(item) for item in fact]
    if None in kinds:
        return None
    kind = scalar_kind(operand)
    return any(k == kind and item == operand for k, item in zip(kinds, fact, strict=True))
