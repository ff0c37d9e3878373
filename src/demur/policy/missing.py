"""What a request lacks: absent fields that would change a rule, and fields that cannot be used.

A rule that matched because fields are absent asks for those fields, and only for those: for a field
that is there, or that cannot change the rule, nobody is asked. A field that a rule compares and
cannot use is named with the reason and with what would be right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from demur.codes.vocabulary import GrantKind, Verdict
from demur.model.record import InvalidField
from demur.policy.conditions import absent_paths
from demur.policy.facts import (
    AMOUNT_USD,
    FALSE,
    INVALID,
    MISSING,
    ROOTS,
    SHORTCUTS,
    TRUE,
    UNUSABLE,
    compile_comparison,
    fetch_fact,
    fetch_operand,
    is_ambiguous_amount,
    join_alternatives,
    negate_state,
    parse_amount,
    scalar_kind,
)
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator, PolicyRule

_AMOUNT, _VALUE, _CURRENCY = "action.amount", "action.amount.value", "action.amount.currency"
_KINDS = {"text": "a text", "number": "a number", "boolean": "true or false"}


def depends_on_facts(rule: PolicyRule) -> bool:
    """Return whether a rule that matched may ask for less than its outcome lists."""
    if rule.then.verdict is Verdict.ALLOW or not rule.then.missing:
        return False
    return not _asks_for_absent(rule) or _has_alternatives(rule.condition)


class RequestGaps:
    """Finds what one request lacks, by the facts that rules read and the policy's rates."""

    def __init__(self, facts: Mapping[str, Any], rates: Mapping[str, float]) -> None:
        self._facts = facts
        self._rates = rates

    def missing_fields(self, rule: PolicyRule) -> tuple[str, ...]:
        """Return what a rule that matched asks for."""
        # INVARIANT: `missing` never names a field that is there and can be used.
        if _asks_for_absent(rule):
            return self._fields_to_supply(rule.condition, holds=True) or ()
        return tuple(name for name in rule.then.missing if not self._is_present(name))

    def invalid_facts(self, rule: PolicyRule) -> list[InvalidField]:
        """Return the facts that keep a rule from being judged, each path once."""
        found: dict[str, InvalidField] = {}
        for compare in self._invalid_comparisons(rule.condition):
            path = compare.path
            part, why = "", _comparison_problem(compare, self._fetch(path))
            if path == AMOUNT_USD:
                part, why = self._amount_problem()
            found.setdefault(path, InvalidField(rule_id=rule.id, path=path, why=why, part=part))
        return list(found.values())

    def _fields_to_supply(self, condition: Condition, *, holds: bool) -> tuple[str, ...] | None:
        """Return the absent fields that would change the condition, or None if none would.

        It `holds` now, or does not: an absent field makes `missing` true and `exists` false.
        """
        match condition:
            case Compare(path, operator):
                absent = Operator.MISSING if holds else Operator.EXISTS
                return (path,) if operator is absent else None
            case Not(part):
                return self._fields_to_supply(part, holds=not holds)
            case _:
                state = TRUE if holds else FALSE
                parts = [part for part in condition.parts if self._judge(part) == state]
                fields = [self._fields_to_supply(part, holds=holds) for part in parts]
                useful = [one for one in fields if one is not None]
                # An alternative that holds must change in each of its parts that hold.
                if not useful or (isinstance(condition, AnyOf) is holds and None in fields):
                    return None
                return tuple(dict.fromkeys(path for one in useful for path in one))

    def _invalid_comparisons(self, condition: Condition) -> list[Compare]:
        match condition:
            case Compare():
                return [condition] if self._judge(condition) == INVALID else []
            case Not(part):
                return self._invalid_comparisons(part)
            case _:
                parts = [part for part in condition.parts if self._judge(part) == INVALID]
                return [one for part in parts for one in self._invalid_comparisons(part)]

    def _judge(self, condition: Condition) -> int:
        match condition:
            case Compare():
                return compile_comparison(condition)(self._fetch(condition.path))
            case Not(part):
                return negate_state(self._judge(part))
            case All(parts):
                return min(map(self._judge, parts), default=TRUE)
            case _:
                return join_alternatives(map(self._judge, condition.parts))

    def _fetch(self, path: str) -> Any:
        return fetch_operand(self._facts, path, self._rates)

    def _is_present(self, name: str) -> bool:
        path = SHORTCUTS.get(name, name)
        if path.split(".")[0] not in ROOTS and path != AMOUNT_USD:
            return False
        # A kind of grant may have the name of a field.
        fact = MISSING if path in set(GrantKind) else self._fetch(path)
        return fact is not MISSING and fact is not UNUSABLE

    def _amount_problem(self) -> tuple[str, str]:
        """Return the absent part of an unusable amount, if any, and what is wrong."""
        value, currency = fetch_fact(self._facts, _VALUE), fetch_fact(self._facts, _CURRENCY)
        known = " or ".join(["USD", *self._rates])
        if value is UNUSABLE:
            return "", f"`{_AMOUNT}` is not an object with `value` and `currency`"
        if value is MISSING:
            return _VALUE, f"`{_VALUE}` is missing; give a number"
        if parse_amount(value) is None:
            why = "is not a number of zero or more; give one"
            if is_ambiguous_amount(value):
                why = "may mean thousands or decimals; give a number"
            return "", f"`{_VALUE}` {why}"
        if currency is MISSING:
            return _CURRENCY, f"`{_CURRENCY}` is missing; give {known}"
        if not isinstance(currency, str) or currency not in {"USD", *self._rates}:
            return "", f"the policy has no rate for `{_CURRENCY}`; give {known}"
        return "", "the amount is too large"


def _asks_for_absent(rule: PolicyRule) -> bool:
    """Return whether a rule asks for the fields that its condition requires to be missing."""
    return rule.then.missing == tuple(dict.fromkeys(absent_paths(rule.condition)))


def _has_alternatives(condition: Condition) -> bool:
    match condition:
        case Compare():
            return False
        case All(parts):
            return any(map(_has_alternatives, parts))
        case _:
            return True


def _comparison_problem(compare: Compare, fact: Any) -> str:
    if fact is UNUSABLE:
        return "a part of its path is not an object"
    kind = _describe_kind(fact)
    needed = _needed_kind(compare)
    if kind == needed:
        return "it holds a character that cannot be compared"
    return f"it is {kind}; give {needed}"


def _describe_kind(fact: Any) -> str:
    kind = scalar_kind(fact)
    if kind is not None:
        return _KINDS[kind]
    if isinstance(fact, Mapping):
        return "an object"
    if isinstance(fact, Sequence):
        return "a list with items of other kinds"
    return "not a finite number"


def _needed_kind(compare: Compare) -> str:
    operator, operand = compare.operator, compare.operand
    kind = scalar_kind(operand[0] if isinstance(operand, tuple) else operand)
    if operator is Operator.CONTAINS:
        return "a text or a list of texts" if kind == "text" else "a list"
    if operator in {Operator.STARTS_WITH, Operator.MATCHES}:
        return "a text"
    return _KINDS[kind or "text"]
