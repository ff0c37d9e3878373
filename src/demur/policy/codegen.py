"""Write the Python function that judges a request by some rules of a policy.

The function is made of the policy's own checked parts: only names and numbers that are
chosen here stand in its source, never a text from the policy.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import nan
from typing import Any, NamedTuple

from demur.policy.facts import MISSING, UNUSABLE, amount_in_usd, fetch_fact
from demur.policy.leaf import INVALID, TRUE, compile_comparison
from demur.policy.names import SourceNames
from demur.policy.plain import write_fast_path
from demur.policy.policy import All, Compare, Condition, Not, Operator

__all__ = ["RuleFunction", "write_rule_function"]

# Python parses at most 200 open brackets; deeper expressions get a line of their own.
_MAX_DEPTH = 50
_MAX_PLAIN_AMOUNT = 1e15
_NOT = (3, 1, 2, 0)
# Of two alternatives: true wins, then impossible to judge, then missing.
_ANY = ((0, 1, 2, 3), (1, 1, 1, 3), (2, 1, 2, 3), (3, 3, 3, 3))
_COMPARISONS = {
    Operator.GT: ">",
    Operator.GTE: ">=",
    Operator.LT: "<",
    Operator.LTE: "<=",
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.IN: "in",
    Operator.NOT_IN: "not in",
}

_Join = Callable[[str, str, "SourceNames"], str]


class RuleFunction(NamedTuple):
    """A function of a request and its findings, and the paths of the facts it compares.

    The function returns the indexes of rules that match, those of rules that cannot be
    judged, and the facts in the order of `paths`.
    """

    call: Callable[
        [Mapping[str, Any], Mapping[str, Any] | None],
        tuple[list[int], list[int], tuple[Any, ...]],
    ]
    paths: tuple[str, ...]


def write_rule_function(
    conditions: Mapping[int, Condition], rates: Mapping[str, float]
) -> RuleFunction:
    """Return the function that evaluates conditions, keyed by the indexes of their rules."""
    names = SourceNames({}, {}, [])
    for index, condition in conditions.items():
        names.lines.extend(_rule_lines(index, condition, names))
    fetches = [
        line for path, name in names.facts.items() for line in _fetch_lines(path, name, names)
    ]
    source = [
        "def careful(request, findings):",
        "    matched = []; invalid = []",
        *fetches,
        *names.lines,
        f"    return matched, invalid, ({''.join(f'{name}, ' for name in names.facts.values())})",
        *write_fast_path(conditions, names),
    ]
    scope = {
        **names.values,
        "fetch": fetch_fact,
        "usd": _usd_reader(rates),
        "MISSING": MISSING,
        "UNUSABLE": UNUSABLE,
        "NOWHERE": nan,
        "ANY": _ANY,
        "NOT": _NOT,
    }
    # The source contains no text from the policy: texts are passed as values.
    exec(compile("\n".join(source), "<policy>", "exec"), scope)  # noqa: S102 - see above
    return RuleFunction(scope.get("plain", scope["careful"]), tuple(names.facts))


def _rule_lines(index: int, condition: Condition, names: SourceNames) -> list[str]:
    return [
        f"    s = {_condition_source(condition, names)}",
        f"    if s == {TRUE}: matched.append({index})",
        f"    elif s == {INVALID}: invalid.append({index})",
    ]


def _usd_reader(rates: Mapping[str, float]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function that reads the amount in dollars, with a fast path for plain dollars."""

    def usd(request: Mapping[str, Any]) -> Any:
        action = request.get("action")
        amount = action.get("amount") if action.__class__ is dict else None
        if amount.__class__ is dict and amount.get("currency") == "USD":
            value = amount.get("value")
            if (
                value.__class__ is int or value.__class__ is float
            ) and 0 <= value <= _MAX_PLAIN_AMOUNT:
                return value
        return amount_in_usd(request, rates)

    return usd


def _fetch_lines(path: str, name: str, names: SourceNames) -> list[str]:
    if path == "amount_usd":
        return [f"    {name} = usd(request)"]
    root, *rest = path.split(".")
    if root == "findings":
        return [f"    {name} = findings[{names.add_value(rest[0])}]"]
    if len(rest) != 1:
        return [f"    {name} = fetch(request, {names.add_value(path)})"]
    whole, key = names.add_value(path), names.add_value(rest[0])
    return [
        f"    {name} = request.get({names.add_value(root)})",
        f"    if {name}.__class__ is dict:",
        f"        {name} = {name}.get({key}, MISSING)",
        f"        if {name} is None: {name} = MISSING",
        f"    else: {name} = fetch(request, {whole})",
    ]


def _condition_source(condition: Condition, names: SourceNames) -> str:
    match condition:
        case Compare():
            return _comparison_source(condition, names)
        case Not(part):
            return f"NOT[{_condition_source(part, names)}]"
        case All(parts):
            return (
                _limit_depth(_join_parts(parts, names, _and_source), names) if parts else str(TRUE)
            )
        case _:
            return _limit_depth(_join_parts(condition.parts, names, _or_source), names)


def _join_parts(parts: Sequence[Condition], names: SourceNames, join: _Join) -> str:
    """Join the parts half by half, so that a long list does not nest deeply."""
    if len(parts) == 1:
        return _condition_source(parts[0], names)
    half = len(parts) // 2
    return join(
        _join_parts(parts[:half], names, join), _join_parts(parts[half:], names, join), names
    )


def _and_source(left: str, right: str, names: SourceNames) -> str:
    a, b = names.add_value(None), names.add_value(None)
    return f"(0 if not ({a} := {left}) else {a} if {a} < ({b} := {right}) else {b})"


def _or_source(left: str, right: str, names: SourceNames) -> str:
    a = names.add_value(None)
    return f"(3 if ({a} := {left}) == 3 else ANY[{a}][{right}])"


def _limit_depth(expression: str, names: SourceNames) -> str:
    """Return the expression, or if it nests too deeply, a variable that holds its value."""
    depth = accumulate((c in "([") - (c in ")]") for c in expression)
    if max(depth) < _MAX_DEPTH:
        return expression
    name = names.add_value(None)
    names.lines.append(f"    {name} = {expression}")
    return name


def _comparison_source(compare: Compare, names: SourceNames) -> str:
    """Return the source of one comparison: inline for plain types, else a call."""
    fact = names.fact_variable(compare.path)
    slow = f"{names.add_value(compile_comparison(compare))}({fact})"
    symbol = _COMPARISONS.get(compare.operator)
    if symbol is None:
        return slow
    many = isinstance(compare.operand, tuple)
    operand = names.add_value(frozenset(compare.operand) if many else compare.operand)
    sample = compare.operand[0] if many else compare.operand
    test = f"({TRUE} if {fact} {symbol} {operand} else 0)"
    if isinstance(sample, str):
        return f"({test} if {fact}.__class__ is str else {slow})"
    if isinstance(sample, bool):
        return f"({test} if {fact}.__class__ is bool else {slow})"
    plain = f"{fact}.__class__ is int or {fact}.__class__ is float and {fact} - {fact} == 0"
    return f"({test} if {plain} else {slow})"
