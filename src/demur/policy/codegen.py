"""Write the Python functions that evaluate rules.

The source contains only names and numbers chosen here, never a text from the policy. The fast
path serves facts that are missing or of the kind that rules expect: such a rule matches or
does not. For any other fact it starts over on the careful path.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import nan
from typing import Any, NamedTuple

from demur.policy.conditions import iter_comparisons
from demur.policy.facts import (
    INVALID,
    MISSING,
    TRUE,
    UNUSABLE,
    amount_in_usd,
    compile_comparison,
    fetch_fact,
)
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator


class SourceNames(NamedTuple):
    """What the source of a function refers to: facts by variable, values by name."""

    facts: dict[str, str]
    values: dict[str, Any]
    # Lines that must run before the current one.
    lines: list[str]

    def fact_variable(self, path: str) -> str:
        """Return the variable that holds a fact."""
        return self.facts.setdefault(path, f"f{len(self.facts)}")

    def add_value(self, value: Any) -> str:
        """Return a new name for a value."""
        name = f"k{len(self.values)}"
        self.values[name] = value
        return name


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
            inner = (_has_fast_path(part, depth + 1) for part in parts)
            return depth < _MAX_FAST_DEPTH and all(inner)
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
    lines: list[str] = []
    for root in roots:
        lines += (
            f"    r_{root} = request.get({names.add_value(root)})",
            f"    if r_{root}.__class__ is not dict: return careful(request, findings)",
        )
    return lines


def _fact_lines(path: str, kind: str, names: SourceNames) -> list[str]:
    """Return the lines that read a fact, and call `careful` if it is of another kind."""
    name = names.fact_variable(path)
    root, _, rest = path.partition(".")
    if path == "amount_usd":
        value = "usd(request)"
    elif rest and "." not in rest:
        value = f"r_{root}.get({names.add_value(rest)})"
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


# Python parses at most 200 open brackets; deeper expressions get a line of their own.
_MAX_DEPTH = 50
_MAX_PLAIN_AMOUNT = 1e15
_NOT = (3, 1, 2, 0)
# Of two alternatives: true wins, then impossible to judge, then missing.
_ANY = ((0, 1, 2, 3), (1, 1, 1, 3), (2, 1, 2, 3), (3, 3, 3, 3))

_Join = Callable[[str, str, "SourceNames"], str]
_Facts = Mapping[str, Any]
_Rates = Mapping[str, float]


class RuleFunction(NamedTuple):
    """A function of a request and its findings, and the paths of the facts it compares.

    The function returns the indexes of rules that match, those of rules that cannot be
    judged, and the facts in the order of `paths`.
    """

    call: Callable[[_Facts, _Facts | None], tuple[list[int], list[int], tuple[Any, ...]]]
    paths: tuple[str, ...]


def write_rule_function(conditions: Mapping[int, Condition], rates: _Rates) -> RuleFunction:
    """Return the function that evaluates conditions, keyed by the indexes of their rules."""
    names = SourceNames({}, {}, [])
    for index, condition in conditions.items():
        names.lines.extend(_rule_lines(index, condition, names))
    source = [
        "def careful(request, findings):",
        "    matched = []; invalid = []",
        *(line for fact in names.facts.items() for line in _fetch_lines(*fact, names)),
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
            is_number = value.__class__ is int or value.__class__ is float
            if value is not None and is_number and 0 <= value <= _MAX_PLAIN_AMOUNT:
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
            if not parts:
                return str(TRUE)
            return _limit_depth(_join_parts(parts, names, _and_source), names)
        case _:
            return _limit_depth(_join_parts(condition.parts, names, _or_source), names)


def _join_parts(parts: Sequence[Condition], names: SourceNames, join: _Join) -> str:
    """Join the parts half by half, so that a long list does not nest deeply."""
    if len(parts) == 1:
        return _condition_source(parts[0], names)
    half = len(parts) // 2
    left, right = (_join_parts(side, names, join) for side in (parts[:half], parts[half:]))
    return join(left, right, names)


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
    symbol = _SYMBOLS.get(compare.operator)
    if symbol is None:
        return slow
    many = isinstance(compare.operand, tuple)
    operand = names.add_value(frozenset(compare.operand) if many else compare.operand)
    sample = compare.operand[0] if many else compare.operand
    test = f"({TRUE} if {fact} {symbol} {operand} else 0)"
    kind = _TEXT if isinstance(sample, str) else _FLAG if isinstance(sample, bool) else _NUMBER
    return f"({test} if {_FITS[kind].format(fact)} else {slow})"
