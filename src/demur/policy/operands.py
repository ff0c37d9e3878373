"""What may stand behind an operator, and conditions that can never hold."""

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any

import re2

from demur.policy.policy import Compare, Operator

__all__ = ["find_contradiction", "scalar_kind", "operand_problem"]

_ORDER = {Operator.GT, Operator.GTE, Operator.LT, Operator.LTE}
_LISTS = {Operator.IN, Operator.NOT_IN}
_PRESENCE = {Operator.EXISTS, Operator.MISSING}
_PATTERN_OPTIONS = re2.Options()
_PATTERN_OPTIONS.log_errors = False


def scalar_kind(value: object) -> str | None:
    """Return the kind of a scalar; values of different kinds never compare."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        return "number"
    if isinstance(value, float):
        return "number" if isfinite(value) else None
    return None


def operand_problem(operator: Operator, operand: Any) -> str | None:
    """Return why `operator` cannot take `operand`, or None if it can."""
    if operator in _PRESENCE:
        return None if operand is True else f"`{operator}` takes `true` alone"
    if operator in _LISTS:
        return _list_problem(operator, operand)
    kind = scalar_kind(operand)
    if operator in _ORDER:
        return None if kind == "number" else f"`{operator}` takes a number"
    if operator is Operator.MATCHES:
        return _pattern_problem(operand)
    if operator is Operator.STARTS_WITH:
        return None if kind == "text" and operand else f"`{operator}` takes a text"
    return None if kind else f"`{operator}` takes a text, a number, true or false"


def _list_problem(operator: Operator, operand: Any) -> str | None:
    if not isinstance(operand, list) or not operand:
        return f"`{operator}` takes a list with at least one value"
    kinds = {scalar_kind(value) for value in operand}
    if None in kinds or len(kinds) > 1:
        return f"`{operator}` takes values of one kind: texts, numbers, or booleans"
    return "a value stands twice in the list" if len(set(operand)) < len(operand) else None


def _pattern_problem(operand: Any) -> str | None:
    if not isinstance(operand, str):
        return "`matches` takes a pattern"
    try:
        re2.compile(operand, options=_PATTERN_OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode() if isinstance(reason, bytes) else reason
        return f"not a linear-time pattern: {words}"
    return None


def find_contradiction(compares: Iterable[Compare]) -> str | None:
    """Return a path whose comparisons no value can satisfy, or None."""
    by_path: dict[str, dict[Operator, list[Any]]] = {}
    for compare in compares:
        operators = by_path.setdefault(compare.path, {})
        operators.setdefault(compare.operator, []).append(compare.operand)
    return next((path for path, ops in by_path.items() if _has_contradiction(path, ops)), None)


def _has_contradiction(path: str, ops: Mapping[Operator, list[Any]]) -> bool:
    if Operator.MISSING in ops and len(ops) > 1:
        return True
    if len(_required_kinds(path, ops)) > 1:
        return True
    low, high, open_ended = _number_range(path, ops)
    if low > high or (low == high and open_ended):
        return True
    allowed = [*ops.get(Operator.IN, []), *((value,) for value in ops.get(Operator.EQ, []))]
    common = set.intersection(*map(set, allowed)) if allowed else None
    return common is not None and not any(_fits_others(value, path, ops) for value in common)


def _required_kinds(path: str, ops: Mapping[Operator, list[Any]]) -> set[str | None]:
    """Return the kinds that a value must have at the same time."""
    kinds: set[str | None] = {"number"} if path == "amount_usd" else set()
    for operator, operands in ops.items():
        if operator in _ORDER | _LISTS | {Operator.EQ, Operator.NE}:
            kinds |= {scalar_kind(one[0] if operator in _LISTS else one) for one in operands}
        elif operator in {Operator.STARTS_WITH, Operator.MATCHES}:
            kinds.add("text")
    # Only a text or a list contains anything.
    return kinds | {"text"} if Operator.CONTAINS in ops and kinds else kinds


def _number_range(path: str, ops: Mapping[Operator, list[Any]]) -> tuple[float, float, bool]:
    """Return the range that the bounds leave, and whether one end is excluded."""
    # An amount is never negative.
    lows = [(0.0, False)] if path == "amount_usd" else []
    lows += [(value, False) for value in ops.get(Operator.GTE, [])]
    lows += [(value, True) for value in ops.get(Operator.GT, [])]
    highs = [(value, False) for value in ops.get(Operator.LTE, [])]
    highs += [(value, True) for value in ops.get(Operator.LT, [])]
    low, low_open = max(lows, default=(-inf, False))
    high, high_open = min(highs, key=lambda end: (end[0], not end[1]), default=(inf, False))
    return low, high, low_open or high_open


def _fits_others(value: Any, path: str, ops: Mapping[Operator, list[Any]]) -> bool:
    """Return whether a required value passes the other comparisons."""
    if value in ops.get(Operator.NE, []):
        return False
    if any(value in refused for refused in ops.get(Operator.NOT_IN, [])):
        return False
    if scalar_kind(value) != "number":
        return True
    bounds = {op: [*operands] for op, operands in ops.items() if op in _ORDER}
    bounds[Operator.GTE] = [*bounds.get(Operator.GTE, []), value]
    bounds[Operator.LTE] = [*bounds.get(Operator.LTE, []), value]
    low, high, open_ended = _number_range(path, bounds)
    return low == high and not open_ended
