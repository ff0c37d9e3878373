"""Facts of a request, and how an operator compares one with its operand.

A fact is usable, missing or unusable. A comparison with a missing fact does not hold; one with
an unusable fact cannot be judged. So a comparison has four states, ordered so that the lowest
decides a conjunction: false, then impossible to judge, then missing, then true.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any, Final

import re2

from demur.model.finding import Finding
from demur.policy.policy import Compare, Operator

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
    return "a value appears twice in the list" if len(set(operand)) < len(operand) else None


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
    if (Operator.MISSING in ops and len(ops) > 1) or len(_required_kinds(path, ops)) > 1:
        return True
    low, high, open_ended = _number_range(path, ops)
    if low > high or (low == high and open_ended):
        return True
    allowed = [*ops.get(Operator.IN, []), *((value,) for value in ops.get(Operator.EQ, []))]
    common = set.intersection(*map(set, allowed)) if allowed else None
    return common is not None and not any(_fits_others(value, path, ops) for value in common)


def _required_kinds(path: str, ops: Mapping[Operator, list[Any]]) -> set[str | None]:
    """Return the kinds that a value must have at the same time."""
    kinds: set[str | None] = {"number"} if path == AMOUNT_USD else set()
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
    lows = [(0.0, False)] if path == AMOUNT_USD else []
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


class _FactMarker:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


MISSING: Final = _FactMarker("MISSING")
UNUSABLE: Final = _FactMarker("UNUSABLE")

# The fields of a request, so that loading a policy finds a mistyped path.
ROOTS = (
    "action",
    "context",
    "context_ref",
    "continues",
    "evidence",
    "extensions",
    "findings",
    "request_id",
    "signals",
    "subject",
    "tenant",
    "trace",
)
SHORTCUTS = {"action_type": "action.type", "amount_currency": "action.amount.currency"}
AMOUNT_USD = "amount_usd"
FINDING_FACTS = ("findings.codes", "findings.surfaces", "findings.count")

Facts = Mapping[str, Any]

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
# In half of the world the dot separates thousands, so `1.000` is one or one thousand.
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")


class FirstEngineRates(dict[str, float]):
    """The rates of a policy for a replay of engine 0.1.0, which read the text `1.000` as 1."""


def build_facts(request: Mapping[str, Any], findings: Sequence[Finding] = ()) -> Facts:
    """Return what rules can read. A `findings` key in the caller's request is replaced."""
    return {
        **request,
        "findings": {
            "codes": [finding.code for finding in findings],
            "surfaces": [str(finding.surface) for finding in findings],
            "count": len(findings),
        },
    }


def fetch_fact(facts: Facts, path: str) -> Any:
    """Return the fact at a dotted path, MISSING if there is none (null counts as none)."""
    value: Any = facts
    for name in path.split("."):
        # Checking the class first is much faster than `isinstance` with an abstract class.
        if value.__class__ is not dict and not isinstance(value, Mapping):
            return UNUSABLE
        value = value.get(name)
        if value is None:
            return MISSING
    return value


def amount_in_usd(facts: Facts, rates: Mapping[str, float]) -> Any:
    """Return the action's amount in dollars, by the policy's rates and never the caller's.

    MISSING without an amount; UNUSABLE if it is negative, ambiguous, not a number, or in a
    currency without a rate in the policy.
    """
    value = fetch_fact(facts, "action.amount.value")
    currency = fetch_fact(facts, "action.amount.currency")
    if value is MISSING:
        return MISSING if currency is MISSING else UNUSABLE
    number = parse_amount(value, allow_ambiguous=isinstance(rates, FirstEngineRates))
    if number is None or not isinstance(currency, str):
        return UNUSABLE
    if currency == "USD":
        return number
    rate = rates.get(currency)
    try:
        return UNUSABLE if rate is None else number * rate
    except OverflowError:
        return UNUSABLE


def fetch_operand(facts: Facts, path: str, rates: Mapping[str, float]) -> Any:
    """Return the fact at a path, or the action's amount in dollars for `amount_usd`."""
    return amount_in_usd(facts, rates) if path == AMOUNT_USD else fetch_fact(facts, path)


def is_ambiguous_amount(value: Any) -> bool:
    """Return whether a text may mean thousands or decimals, like `1.000`."""
    return isinstance(value, str) and _AMBIGUOUS.fullmatch(value) is not None


def parse_amount(value: Any, *, allow_ambiguous: bool = False) -> float | None:
    """Return an amount as a number: finite, not negative, a number or its decimal text."""
    if is_ambiguous_amount(value) and not allow_ambiguous:
        return None
    if isinstance(value, str):
        value = float(value) if _DECIMAL.fullmatch(value) else None
    return value if scalar_kind(value) == "number" and value >= 0 else None


FALSE, INVALID, MISSED, TRUE = 0, 1, 2, 3
_NEGATED = {TRUE: FALSE, FALSE: TRUE}
# Of several alternatives, the last one in this order decides.
_BY_WEIGHT = (FALSE, MISSED, INVALID, TRUE)


def negate_state(state: int) -> int:
    """Return the state of a negated condition; one that was not judged stays so."""
    return _NEGATED.get(state, state)


def join_alternatives(states: Iterable[int]) -> int:
    """Return the state of a condition of which one alternative has to hold."""
    return max(states, key=_BY_WEIGHT.index, default=FALSE)


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
