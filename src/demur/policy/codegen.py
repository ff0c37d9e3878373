"""Write the Python function that judges a request by some rules of a policy.

The function is made of the policy's own checked parts: only names and numbers that are
chosen here stand in its source, never a text from the policy.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import nan
from typing import Any, NamedTuple

from demur.policy.facts import MISSING, UNUSABLE, amount_in_usd, fetch
from demur.policy.leaf import INVALID, TRUE, leaf
from demur.policy.names import Names
from demur.policy.plain import write_plain
from demur.policy.policy import All, Compare, Condition, Not, Operator

__all__ = ["Judge", "write_judge"]

# Python parses at most 200 open brackets; deeper expressions get a line of their own.
_DEEPEST = 50
_PLAINLY_FINITE = 1e15
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

_Join = Callable[[str, str, "Names"], str]


class Judge(NamedTuple):
    """A function of a request and its findings, and the paths of the facts it compares.

    The function returns the indexes of rules that match, those of rules that cannot be
    judged, and the facts in the order of `paths`.
    """

    call: Callable[
        [Mapping[str, Any], Mapping[str, Any] | None],
        tuple[list[int], list[int], tuple[Any, ...]],
    ]
    paths: tuple[str, ...]


def write_judge(conditions: Mapping[int, Condition], rates: Mapping[str, float]) -> Judge:
    """Return the function that evaluates conditions, keyed by the indexes of their rules."""
    names = Names({}, {}, [])
    for index, condition in conditions.items():
        names.lines.extend(_rule(index, condition, names))
    fetches = [line for path, name in names.facts.items() for line in _fetch(path, name, names)]
    source = [
        "def careful(request, findings):",
        "    matched = []; invalid = []",
        *fetches,
        *names.lines,
        f"    return matched, invalid, ({''.join(f'{name}, ' for name in names.facts.values())})",
        *write_plain(conditions, names),
    ]
    scope = {
        **names.values,
        "fetch": fetch,
        "usd": _usd(rates),
        "MISSING": MISSING,
        "UNUSABLE": UNUSABLE,
        "NOWHERE": nan,
        "ANY": _ANY,
        "NOT": _NOT,
    }
    # The source contains no text from the policy: texts are passed as values.
    exec(compile("\n".join(source), "<policy>", "exec"), scope)  # noqa: S102 - see above
    return Judge(scope.get("plain", scope["careful"]), tuple(names.facts))


def _rule(index: int, condition: Condition, names: Names) -> list[str]:
    return [
        f"    s = {_expression(condition, names)}",
        f"    if s == {TRUE}: matched.append({index})",
        f"    elif s == {INVALID}: invalid.append({index})",
    ]


def _usd(rates: Mapping[str, float]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function that reads the amount in dollars, with a fast path for plain dollars."""

    def usd(request: Mapping[str, Any]) -> Any:
        action = request.get("action")
        amount = action.get("amount") if action.__class__ is dict else None
        if amount.__class__ is dict and amount.get("currency") == "USD":
            value = amount.get("value")
            if (
                value.__class__ is int or value.__class__ is float
            ) and 0 <= value <= _PLAINLY_FINITE:
                return value
        return amount_in_usd(request, rates)

    return usd


def _fetch(path: str, name: str, names: Names) -> list[str]:
    if path == "amount_usd":
        return [f"    {name} = usd(request)"]
    root, *rest = path.split(".")
    if root == "findings":
        return [f"    {name} = findings[{names.value(rest[0])}]"]
    if len(rest) != 1:
        return [f"    {name} = fetch(request, {names.value(path)})"]
    whole, key = names.value(path), names.value(rest[0])
    return [
        f"    {name} = request.get({names.value(root)})",
        f"    if {name}.__class__ is dict:",
        f"        {name} = {name}.get({key}, MISSING)",
        f"        if {name} is None: {name} = MISSING",
        f"    else: {name} = fetch(request, {whole})",
    ]


def _expression(condition: Condition, names: Names) -> str:
    match condition:
        case Compare():
            return _leaf(condition, names)
        case Not(part):
            return f"NOT[{_expression(part, names)}]"
        case All(parts):
            return _shallow(_fold(parts, names, _both), names) if parts else str(TRUE)
        case _:
            return _shallow(_fold(condition.parts, names, _either), names)


def _fold(parts: Sequence[Condition], names: Names, join: _Join) -> str:
    """Join the parts half by half, so that a long list does not nest deeply."""
    if len(parts) == 1:
        return _expression(parts[0], names)
    half = len(parts) // 2
    return join(_fold(parts[:half], names, join), _fold(parts[half:], names, join), names)


def _both(left: str, right: str, names: Names) -> str:
    a, b = names.value(None), names.value(None)
    return f"(0 if not ({a} := {left}) else {a} if {a} < ({b} := {right}) else {b})"


def _either(left: str, right: str, names: Names) -> str:
    a = names.value(None)
    return f"(3 if ({a} := {left}) == 3 else ANY[{a}][{right}])"


def _shallow(expression: str, names: Names) -> str:
    """Return the expression, or if it nests too deeply, a variable that holds its value."""
    depth = accumulate((c in "([") - (c in ")]") for c in expression)
    if max(depth) < _DEEPEST:
        return expression
    name = names.value(None)
    names.lines.append(f"    {name} = {expression}")
    return name


def _leaf(compare: Compare, names: Names) -> str:
    """Return the source of one comparison: inline for plain types, else a call."""
    fact = names.fact(compare.path)
    slow = f"{names.value(leaf(compare))}({fact})"
    symbol = _COMPARISONS.get(compare.operator)
    if symbol is None:
        return slow
    many = isinstance(compare.operand, tuple)
    operand = names.value(frozenset(compare.operand) if many else compare.operand)
    sample = compare.operand[0] if many else compare.operand
    test = f"({TRUE} if {fact} {symbol} {operand} else 0)"
    if isinstance(sample, str):
        return f"({test} if {fact}.__class__ is str else {slow})"
    if isinstance(sample, bool):
        return f"({test} if {fact}.__class__ is bool else {slow})"
    plain = f"{fact}.__class__ is int or {fact}.__class__ is float and {fact} - {fact} == 0"
    return f"({test} if {plain} else {slow})"
