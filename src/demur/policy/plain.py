"""Write the short way of a judge: for facts that are missing or of the kind that rules expect.

Of such facts nothing is impossible to judge, so a rule matches or does not. Whatever is
of another kind, the short way leaves to the careful one, which starts over.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from demur.policy.conditions import compares
from demur.policy.names import Names
from demur.policy.policy import All, AnyOf, Compare, Condition, Operator

__all__ = ["write_plain"]

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
_DEEPEST = 20


def write_plain(conditions: Mapping[int, Condition], names: Names) -> list[str]:
    """Return the source of `plain(request, findings)`; empty if a rule has no fast path."""
    kinds = _kinds(conditions.values())
    if kinds is None:
        return []
    rules = [
        f"    if {_truth(condition, kinds, names)}: matched.append({index})"
        for index, condition in conditions.items()
    ]
    facts = "".join(f"{name}, " for name in names.facts.values())
    return [
        "def plain(request, findings):",
        *_roots(kinds, names),
        *(line for path, kind in kinds.items() for line in _fact(path, kind, names)),
        "    matched = []",
        *rules,
        f"    return matched, [], ({facts})",
    ]


def _kinds(conditions: Iterable[Condition]) -> dict[str, str] | None:
    """Return the kind that each fact must have, or None if there is no fast path."""
    kinds: dict[str, str] = {}
    for condition in conditions:
        if not _is_short(condition, 0):
            return None
        for compare in compares(condition):
            kind = _kind(compare)
            known = kinds.get(compare.path, _THERE)
            if _THERE not in {kind, known} and kind != known:
                return None
            kinds[compare.path] = kind if known == _THERE else known
    return kinds


def _is_short(condition: Condition, depth: int) -> bool:
    match condition:
        case Compare(path, operator):
            plain = operator in _SYMBOLS or operator in _PRESENCE
            return plain and not path.startswith("findings.")
        case All(parts) | AnyOf(parts):
            return depth < _DEEPEST and all(_is_short(part, depth + 1) for part in parts)
        case _:
            # A negation does not hold either if its fact is missing.
            return False


def _kind(compare: Compare) -> str:
    if compare.operator in _PRESENCE:
        return _THERE
    sample: Any = compare.operand[0] if isinstance(compare.operand, tuple) else compare.operand
    return _TEXT if isinstance(sample, str) else _FLAG if isinstance(sample, bool) else _NUMBER


def _roots(kinds: Mapping[str, str], names: Names) -> list[str]:
    """Return the lines that read each part of the request that holds facts."""
    roots = dict.fromkeys(path.split(".")[0] for path in kinds if path.count(".") == 1)
    return [
        line
        for root in roots
        for line in (
            f"    {_root(root)} = request.get({names.value(root)})",
            f"    if {_root(root)}.__class__ is not dict: return careful(request, findings)",
        )
    ]


def _root(name: str) -> str:
    return f"r_{name}"


def _fact(path: str, kind: str, names: Names) -> list[str]:
    """Return the lines that read a fact, and call `careful` if it is of another kind."""
    name = names.fact(path)
    root, _, rest = path.partition(".")
    if path == "amount_usd":
        value = "usd(request)"
    elif rest and "." not in rest:
        value = f"{_root(root)}.get({names.value(rest)})"
    else:
        value = f"fetch(request, {names.value(path)})"
    fits = _FITS[kind].format(name)
    return [
        f"    {name} = {value}",
        f"    if {fits}: " + (f"n{name} = {name}" if kind == _NUMBER else "pass"),
        f"    elif {name} is None or {name} is MISSING:",
        # NOWHERE is NaN: no comparison with it holds.
        f"        {name} = MISSING" + (f"; n{name} = NOWHERE" if kind == _NUMBER else ""),
        "    else: return careful(request, findings)",
    ]


def _truth(condition: Condition, kinds: Mapping[str, str], names: Names) -> str:
    match condition:
        case Compare():
            return _comparison(condition, kinds, names)
        case All(parts):
            return f"({' and '.join(_truth(part, kinds, names) for part in parts) or True})"
        case AnyOf(parts):
            return f"({' or '.join(_truth(part, kinds, names) for part in parts) or False})"
        case _:
            raise AssertionError(condition)


def _comparison(compare: Compare, kinds: Mapping[str, str], names: Names) -> str:
    fact, operator = names.fact(compare.path), compare.operator
    if operator in _PRESENCE:
        return f"{fact} {_PRESENCE[operator]} MISSING"
    many = isinstance(compare.operand, tuple)
    operand = names.value(frozenset(compare.operand) if many else compare.operand)
    subject = f"n{fact}" if kinds[compare.path] == _NUMBER else fact
    test = f"{subject} {_SYMBOLS[operator]} {operand}"
    return f"({fact} is not MISSING and {test})" if operator in _NEGATIVE else test
