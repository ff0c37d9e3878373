"""Compile a policy into Python functions, one per kind of action, built when first needed.

A rule that asks for another action costs nothing, and neither does one that asks for
another value of the field that most rules of a large bucket ask for. The functions are
made of the policy's own checked parts: only names and numbers that the compiler chose
stand in their source, never a text from the policy.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.model.finding import Finding
from demur.policy.conditions import compares
from demur.policy.evaluation import Evaluation, InvalidFact, combine
from demur.policy.facts import MISSING, amount_in_usd, facts_of, fetch
from demur.policy.leaf import INVALID, TRUE, leaf
from demur.policy.policy import All, Compare, Condition, Not, Operator, Policy, Rule

__all__ = ["CompiledPolicy"]

_ACTION = "action.type"
_SMALLEST_INDEX = 64
_MOST_REMEMBERED = 4096
# Python reads no more than 200 open brackets; what lies deeper gets a line of its own.
_DEEPEST = 50
_PLAINLY_FINITE = 1e15
_NOT = (3, 1, 2, 0)
# Among alternatives a true one settles it, then one that cannot be judged, then a missing one.
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

# The indexes of rules that match and of rules that cannot be judged.
_Judge = Callable[[Mapping[str, Any], Mapping[str, Any] | None], tuple[list[int], list[int]]]
_Join = Callable[[str, str, "_Names"], str]


class CompiledPolicy:
    """A policy ready to judge. Safe to share between threads; functions are built once each."""

    def __init__(self, policy: Policy, *, registry: Registry | None = None) -> None:
        self.policy = policy
        self.registry = default_registry() if registry is None else registry
        self._lock = Lock()
        self._buckets: dict[str | None, _Bucket] = {}
        self._known: dict[tuple[int, ...], Evaluation] = {}
        self._by_action = _by_action(policy.rules)
        self._reads_findings = any(rule.reads_findings for rule in policy.rules)

    def evaluate(self, request: Mapping[str, Any], findings: Sequence[Finding] = ()) -> Evaluation:
        """Return what the policy concludes about a request and what guards saw in it."""
        # What the caller's request calls `findings` is never read: findings come in beside it.
        seen = facts_of({}, findings)["findings"] if self._reads_findings else None
        action = request.get("action")
        plain = action.get("type") if action.__class__ is dict else None
        bucket = self._bucket(plain if plain.__class__ is str else fetch(request, _ACTION))
        matched, invalid = bucket.judge(request)(request, seen)
        if invalid or findings:
            return self._combine(request, matched, invalid, findings, seen)
        key = tuple(matched)
        known = self._known.get(key)
        if known is None:
            known = self._combine(request, matched, invalid, findings, seen)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[key] = known
        return known

    def _bucket(self, action: Any) -> "_Bucket":
        # An action that is missing or no text is judged by every rule, each for itself.
        key = action if type(action) is str else None
        if key is not None and key not in self._by_action:
            key = ""
        return self._buckets.get(key) or self._new_bucket(key)

    def _new_bucket(self, key: str | None) -> "_Bucket":
        with self._lock:
            if key not in self._buckets:
                indexes = range(len(self.policy.rules)) if key is None else self._by_action[key]
                self._buckets[key] = _Bucket(self.policy, indexes, known_action=key is not None)
            return self._buckets[key]

    def _combine(
        self,
        request: Mapping[str, Any],
        matched: Sequence[int],
        invalid: Sequence[int],
        findings: Sequence[Finding],
        seen: Mapping[str, Any] | None,
    ) -> Evaluation:
        rules = self.policy.rules
        facts = {**request, "findings": seen}
        unusable = [
            InvalidFact(rules[index].id, path)
            for index in invalid
            if not rules[index].shadow
            for path in _invalid_paths(rules[index].condition, facts, self.policy)
        ]
        chosen = [rules[index] for index in matched]
        return combine(self.policy, chosen, unusable, findings, self.registry)


def _invalid_paths(condition: Condition, facts: Mapping[str, Any], policy: Policy) -> list[str]:
    found = (
        compare.path
        for compare in compares(condition)
        if leaf(compare)(_fact(compare.path, facts, policy)) == INVALID
    )
    return list(dict.fromkeys(found))


def _fact(path: str, facts: Mapping[str, Any], policy: Policy) -> Any:
    return amount_in_usd(facts, policy.rates) if path == "amount_usd" else fetch(facts, path)


def _required(condition: Condition) -> tuple[Compare, ...]:
    """Return the comparisons that must all hold for the condition to hold."""
    match condition:
        case Compare():
            return (condition,)
        case All(parts):
            return tuple(compare for part in parts for compare in _required(part))
        case _:
            return ()


def _by_action(rules: Sequence[Rule]) -> dict[str, list[int]]:
    """Return for each action that rules ask for the rules that can apply; "" is any other."""
    wanted = [_actions(rule) for rule in rules]
    actions = {"", *(action for names in wanted if names is not None for action in names)}
    return {
        action: [i for i, names in enumerate(wanted) if names is None or action in names]
        for action in actions
    }


def _actions(rule: Rule) -> frozenset[str] | None:
    """Return the actions that a rule asks for, or None if it does not ask."""
    for compare in _required(rule.condition):
        if compare.path == _ACTION and compare.operator is Operator.EQ:
            return frozenset([compare.operand]) if isinstance(compare.operand, str) else None
        if compare.path == _ACTION and compare.operator is Operator.IN:
            texts = all(isinstance(action, str) for action in compare.operand)
            return frozenset(compare.operand) if texts else None
    return None


class _Bucket:
    """The rules that can apply to one kind of action, indexed by one more field if large."""

    def __init__(self, policy: Policy, indexes: Sequence[int], *, known_action: bool) -> None:
        self._policy = policy
        self._indexes = list(indexes)
        self._lock = Lock()
        # By the text of the indexed field; None holds all rules.
        self._judges: dict[str | None, _Judge] = {}
        self._path = _index_path(policy, self._indexes) if known_action else None
        self._wanted = {i: _text_of(policy.rules[i], self._path) for i in self._indexes}
        self._values = {value for value in self._wanted.values() if value is not None}

    def judge(self, request: Mapping[str, Any]) -> _Judge:
        part = None
        if self._path is not None:
            value = fetch(request, self._path)
            # Any other type is unusable or missing, which every rule must judge for itself.
            if type(value) is str:
                part = value if value in self._values else ""
        return self._judges.get(part) or self._build(part)

    def _build(self, part: str | None) -> _Judge:
        with self._lock:
            if part not in self._judges:
                every = self._indexes
                chosen = [i for i in every if part is None or self._wanted[i] in {None, part}]
                self._judges[part] = _compile(self._policy, chosen)
            return self._judges[part]


def _index_path(policy: Policy, indexes: Sequence[int]) -> str | None:
    """Return the field whose text most rules of a large bucket ask for, if that is worth it."""
    if len(indexes) < _SMALLEST_INDEX:
        return None
    counts = Counter(
        path for i in indexes for path in {c.path for c in _texts(policy.rules[i])} - {_ACTION}
    )
    path, uses = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return path if uses * 2 >= len(indexes) else None


def _texts(rule: Rule) -> list[Compare]:
    return [
        compare
        for compare in _required(rule.condition)
        if compare.operator is Operator.EQ
        and isinstance(compare.operand, str)
        and compare.operand
        and not compare.path.startswith("findings.")
    ]


def _text_of(rule: Rule, path: str | None) -> str | None:
    return next((c.operand for c in _texts(rule) if c.path == path), None)


class _Names(NamedTuple):
    """What the source of a function refers to: facts by variable, values by name."""

    facts: dict[str, str]
    values: dict[str, Any]
    # Lines that must run before the one that is being written.
    lines: list[str]

    def fact(self, path: str) -> str:
        return self.facts.setdefault(path, f"f{len(self.facts)}")

    def value(self, value: Any) -> str:
        name = f"k{len(self.values)}"
        self.values[name] = value
        return name


def _compile(policy: Policy, indexes: Sequence[int]) -> _Judge:
    names = _Names({}, {}, [])
    for index in indexes:
        expression = _expression(policy.rules[index].condition, names)
        names.lines.extend(
            [
                f"    s = {expression}",
                f"    if s == {TRUE}: matched.append({index})",
                f"    elif s == {INVALID}: invalid.append({index})",
            ]
        )
    fetches = [line for path, name in names.facts.items() for line in _fetch(path, name, names)]
    source = [
        "def judge(request, findings):",
        "    matched = []; invalid = []",
        *fetches,
        *names.lines,
        "    return matched, invalid",
    ]
    scope = {
        **names.values,
        "fetch": fetch,
        "usd": _usd(policy.rates),
        "MISSING": MISSING,
        "ANY": _ANY,
        "NOT": _NOT,
    }
    # The source holds nothing that the policy's author wrote: texts are passed as values.
    exec(compile("\n".join(source), "<policy>", "exec"), scope)  # noqa: S102 - see above
    judge: _Judge = scope["judge"]
    return judge


def _usd(rates: Mapping[str, float]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function that gives the amount in dollars; plain dollars take the short way."""

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


def _fetch(path: str, name: str, names: _Names) -> list[str]:
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


def _expression(condition: Condition, names: _Names) -> str:
    match condition:
        case Compare():
            return _leaf(condition, names)
        case Not(part):
            return f"NOT[{_expression(part, names)}]"
        case All(parts):
            return _shallow(_fold(parts, names, _both), names) if parts else str(TRUE)
        case _:
            return _shallow(_fold(condition.parts, names, _either), names)


def _fold(parts: Sequence[Condition], names: _Names, join: _Join) -> str:
    """Return the parts joined in pairs of halves, so that a long list does not nest deep."""
    if len(parts) == 1:
        return _expression(parts[0], names)
    half = len(parts) // 2
    return join(_fold(parts[:half], names, join), _fold(parts[half:], names, join), names)


def _both(left: str, right: str, names: _Names) -> str:
    a, b = names.value(None), names.value(None)
    return f"(0 if not ({a} := {left}) else {a} if {a} < ({b} := {right}) else {b})"


def _either(left: str, right: str, names: _Names) -> str:
    a = names.value(None)
    return f"(3 if ({a} := {left}) == 3 else ANY[{a}][{right}])"


def _shallow(expression: str, names: _Names) -> str:
    """Return the expression, or where it nests too deep the name that its value was given."""
    depth = accumulate((c in "([") - (c in ")]") for c in expression)
    if max(depth) < _DEEPEST:
        return expression
    name = names.value(None)
    names.lines.append(f"    {name} = {expression}")
    return name


def _leaf(compare: Compare, names: _Names) -> str:
    """Return the expression for one comparison: plain types at once, all others by the book."""
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
