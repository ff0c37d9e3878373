"""Write the short way of a judge: for facts that are missing or of the kind that rules expect.

Of such facts nothing is impossible to judge, so a rule matches or does not. Whatever is
of another kind, the short way leaves to the careful one, which starts over.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from demur.policy.conditions import iter_comparisons
from demur.policy.names import SourceNames
from demur.policy.policy import All, AnyOf, Compare, Condition, Operator

__all__ = ["write_fast_path"]

_NUMBER, _TEXT, _FLAG, _THERE = "number", "text", "flag", "there"
_SYMBOLS = {
    Operator.GT: ">",
    Operator.GTE: ">=",
    Operator.LT: "<",
    Operator.LTE: "<=",
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.IN: "in",
    Operator.NOT_IN: "not in",
}
_NEGATIVE = (Operator.NE, Operator.NOT_IN)
_PRESENCE = {Operator.EXISTS: "is not", Operator.MISSING: "is"}
_FITS = {
    _NUMBER: "{0}.__class__ is int or {0}.__class__ is float and {0} - {0} == 0",
    _TEXT: "{0}.__class__ is str",
    _FLAG: "{0}.__class__ is bool",
    _THERE: "{0} is not None and {0} is not MISSING and {0} is not UNUSABLE",
}
_MAX_FAST_DEPTH = 20


def write_fast_path(conditions: Mapping[int, Condition], names: SourceNames) -> list[str]:
    """Return the source of `plain(request, findings)`; empty if a rule has no fast path."""
    kinds = _fact_kinds(conditions.values())
    if kinds is None:
        return []
    rules = [
        f"    if {_truth_source(condition, kinds, names)}: matched.append({index})"
        for index, condition in conditions.items()
    ]
    facts = "".join(f"{name}, " for name in names.facts.values())
    return [
        "def plain(request, findings):",
        *_root_lines(kinds, names),
        *(line for path, kind in kinds.items() for line in _fact_lines(path, kind, names)),
        "    matched = []",
        *rules,
        f"    return matched, [], ({facts})",
    ]


def _fact_kinds(conditions: Iterable[Condition]) -> dict[str, str] | None:
    """Return the kind that each fact must have, or None if there is no fast path."""
    kinds: dict[str, str] = {}
    for condition in conditions:
        if not _has_fast_path(condition, 0):
            return None
        for compare in iter_comparisons(condition):
            kind = _operand_kind(compare)
            known = kinds.get(compare.path, _THERE)
            if _THERE not in {kind, known} and kind != known:
                return None
            kinds[compare.path] = kind if known == _THERE else known
    return kinds


def _has_fast_path(condition: Condition, depth: int) -> bool:
    match condition:
        case Compare(path, operator):
            plain = operator in _SYMBOLS or operator in _PRESENCE
            return plain and not path.startswith("findings.")
        case All(parts) | AnyOf(parts):
            return depth < _MAX_FAST_DEPTH and all(
                _has_fast_path(part, depth + 1) for part in parts
            )
        case _:
            # A negation does not hold either if its fact is missing.
            return False


def _operand_kind(compare: Compare) -> str:
    if compare.operator in _PRESENCE:
        return _THERE
    sample: Any = compare.operand[0] if isinstance(compare.operand, tuple) else compare.operand
    return _TEXT if isinstance(sample, str) else _FLAG if isinstance(sample, bool) else _NUMBER


def _root_lines(kinds: Mapping[str, str], names: SourceNames) -> list[str]:
    """Return the lines that read each part of the request that holds facts."""
    roots = dict.fromkeys(path.split(".")[0] for path in kinds if path.count(".") == 1)
    return [
        line
        for root in roots
        for line in (
            f"    {_root_variable(root)} = request.get({names.add_value(root)})",
            f"    if {_root_variable(root)}.__class__ is not dict: return careful(request, findings)",
        )
    ]


def _root_variable(name: str) -> str:
    return f"r_{name}"


def _fact_lines(path: str, kind: str, names: SourceNames) -> list[str]:
    """Return the lines that read a fact, and call `careful` if it is of another kind."""
    name = names.fact_variable(path)
    root, _, rest = path.partition(".")
    if path == "amount_usd":
        value = "usd(request)"
    elif rest and "." not in rest:
        value = f"{_root_variable(root)}.get({names.add_value(rest)})"
    else:
        value = f"fetch(request, {names.add_value(path)})"
    fits = _FITS[kind].format(name)
    return [
        f"    {name} = {value}",
        f"    if {fits}: " + (f"n{name} = {name}" if kind == _NUMBER else "pass"),
        f"    elif {name} is None or {name} is MISSING:",
        # NOWHERE is NaN: no comparison with it holds.
        f"        {name} = MISSING" + (f"; n{name} = NOWHERE" if kind == _NUMBER else ""),
        "    else: return careful(request, findings)",
    ]


def _truth_source(condition: Condition, kinds: Mapping[str, str], names: SourceNames) -> str:
    match condition:
        case Compare():
            return _fast_comparison(condition, kinds, names)
        case All(parts):
            return f"({' and '.join(_truth_source(part, kinds, names) for part in parts) or True})"
        case AnyOf(parts):
            return f"({' or '.join(_truth_source(part, kinds, names) for part in parts) or False})"
        case _:
            raise AssertionError(condition)


def _fast_comparison(compare: Compare, kinds: Mapping[str, str], names: SourceNames) -> str:
    fact, operator = names.fact_variable(compare.path), compare.operator
    if operator in _PRESENCE:
        return f"{fact} {_PRESENCE[operator]} MISSING"
    many = isinstance(compare.operand, tuple)
    operand = names.add_value(frozenset(compare.operand) if many else compare.operand)
    subject = f"n{fact}" if kinds[compare.path] == _NUMBER else fact
    test = f"{subject} {_SYMBOLS[operator]} {operand}"
    return f"({fact} is not MISSING and {test})" if operator in _NEGATIVE else test
