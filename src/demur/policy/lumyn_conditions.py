"""Translate Lumyn's conditions.

Lumyn writes a comparison as one key, `evidence.risk_gte: 0.8`; demur as a field and an
operator. Where Lumyn is silently wrong, the import takes the meaning that was intended and
reports it. A rule that stopped an action still stops every request that it stopped before.
"""

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

from demur.policy.facts import scalar_kind
from demur.policy.lumyn_draft import ImportLog, UntranslatableError
from demur.source.item import SourceItem, did_you_mean

_AMOUNTS = {f"amount_usd_{operator}": operator for operator in ("gt", "gte", "lt", "lte")}
_CURRENCIES = {"amount_currency_is": "is", "amount_currency_ne": "ne"}
# Lumyn's validator accepts these, and its engine never matches them.
_NEVER = ("action_type", "amount_currency", "amount_usd")
_KNOWN = (*_AMOUNTS, *_CURRENCIES, *_NEVER, "evidence.NAME_is")
_EVIDENCE = re.compile(r"(evidence\.[A-Za-z_][\w-]*)_(is|ne|in|gte|gt|lte|lt)\Z", re.ASCII)
_TEXTS = ("action_type", "amount_currency")
_CALLERS_RATE = "evidence.fx_rate_to_usd"

_Mapping = dict[str, Any]


class ImportedCondition(NamedTuple):
    """A condition in demur's form. `never` says that Lumyn could never have matched it."""

    condition: _Mapping
    never: bool


class _LumynComparison(NamedTuple):
    """One comparison, as alternatives of which one must hold."""

    alternatives: tuple[tuple[str, str, Any], ...]
    never: bool = False


def translate_condition(
    rule: Mapping[str, SourceItem], log: ImportLog, *, allowing: bool
) -> ImportedCondition:
    """Return the condition that `read_when`, `if`, `if_all` and `if_any` of a rule form together.

    Raises:
        CannotCarryError: A part of it cannot be translated.
    """
    reader = _LumynReader(log, allows=allowing)
    whole = _ConditionBuilder()
    for leaf in reader.read_when(rule.get("when")):
        whole.add_comparison(leaf)
    for item in (rule.get("if"), *_condition_list(rule.get("if_all"), "if_all")):
        for leaf in reader.read_mapping(item):
            whole.add_comparison(leaf)
    reader.read_any(rule.get("if_any"), whole)
    return ImportedCondition(whole.build(), whole.never)


def _condition_list(item: SourceItem | None, what: str) -> list[SourceItem]:
    if item is None or item.value is None:
        return []
    if not isinstance(item.value, list):
        raise UntranslatableError(f"`{what}` is a list of conditions", where=item.where)
    return item.value


class _ConditionBuilder:
    """Combines comparisons that must all hold, as flat as possible."""

    def __init__(self) -> None:
        self.never = False
        self._fields: dict[str, _Mapping] = {}
        self._groups: list[_Mapping] = []

    def add_comparison(self, leaf: _LumynComparison) -> None:
        self.never = self.never or leaf.never
        if len(leaf.alternatives) > 1:
            self.add_group([_simplify({path: {op: v}}) for path, op, v in leaf.alternatives])
            return
        path, operator, operand = leaf.alternatives[0]
        operators = self._fields.setdefault(path, {})
        if operators.setdefault(operator, operand) != operand:
            self._groups.append(_simplify({path: {operator: operand}}))

    def add_group(self, alternatives: list[_Mapping]) -> None:
        group = {"any": alternatives}
        if group not in self._groups:
            self._groups.append(group)

    def build(self) -> _Mapping:
        flat = _simplify(self._fields)
        if len(self._groups) == 1:
            # A single group joins the fields in one mapping: no field is called `any` or `all`.
            [group] = self._groups
            return {**flat, **group} if "any" in group else {**flat, "all": [group]}
        return {**flat, "all": self._groups} if self._groups else flat


def _simplify(fields: Mapping[str, _Mapping]) -> _Mapping:
    """Return fields in short form: a plain value instead of `eq`."""
    return {path: ops["eq"] if [*ops] == ["eq"] else dict(ops) for path, ops in fields.items()}


class _LumynReader:
    def __init__(self, log: ImportLog, *, allows: bool) -> None:
        self._log = log
        self._allows = allows

    def read_when(self, item: SourceItem | None) -> Iterator[_LumynComparison]:
        for key, where, child in _iter_pairs(item, "when"):
            if key == "action_type_in":
                self._log.add(
                    "ignored-key",
                    where,
                    "Lumyn ignores `action_type_in` and applies the rule to every action; "
                    "here it applies to those that are named",
                    "check that nothing relied on the rule for other actions",
                )
                values = child.value if isinstance(child.value, list) else [child]
                yield self._read_list("action_type", where, [one.value for one in values])
            elif key != "action_type":
                raise _unknown_condition(key, where, ("action_type", "action_type_in"))
            elif child.value:
                yield self._read_equal("action_type", child.where, child.value)

    def read_mapping(self, item: SourceItem | None) -> Iterator[_LumynComparison]:
        for key, where, child in _iter_pairs(item, "a condition"):
            leaf = self._read_comparison(key, where, child)
            if leaf.never:
                message = f"Lumyn accepts `{key}` written like this and never matches it"
                if not self._allows:
                    message += "; here the rule matches, and stops what it did not stop before"
                self._log.add("never-matched", where, message)
            yield leaf

    def read_any(self, item: SourceItem | None, whole: _ConditionBuilder) -> None:
        branches: list[_ConditionBuilder] = []
        for child in _condition_list(item, "if_any"):
            branch = _ConditionBuilder()
            for leaf in self.read_mapping(child):
                branch.add_comparison(leaf)
            branches.append(branch)
        live = [branch for branch in branches if not branch.never]
        if branches and not live:
            whole.never = True
        # An import must not allow what Lumyn never allowed.
        kept = (live or branches) if self._allows else branches
        conditions = [branch.build() for branch in kept]
        if all(conditions) and conditions:
            whole.add_group(conditions)

    def _read_comparison(self, key: str, where: str, child: SourceItem) -> _LumynComparison:
        value = child.plain_value
        if key in _AMOUNTS or key == "amount_usd":
            self._note_rates(where)
        if key in _AMOUNTS:
            return _single_comparison("amount_usd", _AMOUNTS[key], _read_threshold(key, child))
        if key in _CURRENCIES:
            return self._read_evidence("amount_currency", _CURRENCIES[key], key, child)
        if key in _NEVER:
            value = _read_threshold(key, child) if key == "amount_usd" else value
            return self._read_equal(key, child.where, value)._replace(never=True)
        found = _EVIDENCE.match(key)
        if found is None:
            raise _unknown_condition(key, where, _KNOWN)
        path, operator = found.groups()
        if path == _CALLERS_RATE:
            self._note_rates(where)
        elif value is not None:
            self._note_kinds(where)
        return self._read_evidence(path, operator, key, child)

    def _read_evidence(
        self, path: str, operator: str, key: str, child: SourceItem
    ) -> _LumynComparison:
        value = child.plain_value
        if operator == "is":
            return self._read_equal(path, child.where, value)
        if operator == "ne":
            return self._read_unequal(path, child.where, value)
        if operator != "in":
            return _single_comparison(path, operator, _read_threshold(key, child))
        listed = isinstance(value, list)
        leaf = self._read_list(path, child.where, value if listed else [value])
        return leaf._replace(never=not listed)

    def _read_equal(self, path: str, where: str, value: Any) -> _LumynComparison:
        if value is None:
            return _single_comparison(path, "missing", operand=True)
        return _single_comparison(path, "eq", _require_scalar(path, value, where))

    def _read_unequal(self, path: str, where: str, value: Any) -> _LumynComparison:
        if value is None:
            return _single_comparison(path, "exists", operand=True)
        leaf = _single_comparison(path, "ne", _require_scalar(path, value, where))
        if not self._allows:
            return _LumynComparison(((path, "missing", True), *leaf.alternatives))
        self._log.add(
            "unequal",
            where,
            f"to Lumyn a missing `{path}` is unequal to everything, so it allows; "
            "here a comparison with a missing field does not hold",
        )
        return leaf

    def _read_list(self, path: str, where: str, values: list[Any]) -> _LumynComparison:
        """Return the comparison with a list; values of several kinds become one list per kind."""
        lists: dict[str | None, list[Any]] = {}
        for value in values:
            if value is not None:
                same = lists.setdefault(scalar_kind(value), [])
                if _require_scalar(path, value, where) not in same:
                    same.append(value)
        alternatives = [(path, "in", same) for same in lists.values()]
        missing = [(path, "missing", True)] if None in values else []
        if not alternatives and not missing:
            problem = f"`{path}` is compared with an empty list, which nothing is in"
            raise UntranslatableError(problem, where=where)
        return _LumynComparison((*missing, *alternatives))

    def _note_rates(self, where: str) -> None:
        self._log.add(
            "rates",
            where,
            "Lumyn converts an amount by the caller's own `evidence.fx_rate_to_usd` and takes "
            "negative ones; here an amount that is negative, or in a currency without a rate in "
            "the policy, is ABSTAIN by EVIDENCE_INVALID",
            "write your own rates into the policy, like `rates: {EUR: 1.08}`",
        )

    def _note_kinds(self, where: str) -> None:
        self._log.add(
            "kinds",
            where,
            "evidence of another kind than it is compared with (a text for a number, true for 1) "
            "makes a condition of Lumyn false or true by chance; here it is ABSTAIN by "
            "EVIDENCE_INVALID",
        )


def _iter_pairs(item: SourceItem | None, what: str) -> Iterator[tuple[str, str, SourceItem]]:
    if item is None or item.value is None:
        return
    if not isinstance(item.value, dict):
        raise UntranslatableError(f"{what} is a mapping", where=item.where)
    for key, child in item.value.items():
        yield key, item.keys[key], child


def _single_comparison(path: str, operator: str, operand: Any) -> _LumynComparison:
    return _LumynComparison(((path, operator, operand),))


def _unknown_condition(key: str, where: str, known: tuple[str, ...]) -> UntranslatableError:
    if key.startswith("evidence."):
        hint = "a name without dots and spaces, and one of _is _ne _in _gt _gte _lt _lte"
    else:
        hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
    problem = f"the condition `{key}` cannot be translated"
    return UntranslatableError(problem, where=where, help=hint)


def _require_scalar(path: str, value: Any, where: str) -> Any:
    kind = scalar_kind(value)
    if kind is None or (path in _TEXTS and kind != "text"):
        kinds = "a text" if path in _TEXTS else "a text, a number, true or false"
        raise UntranslatableError(f"`{path}` is compared with {kinds}", where=where)
    return value


def _read_threshold(key: str, child: SourceItem) -> float:
    """Return a threshold. Lumyn also accepts a number as text."""
    value = child.plain_value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
        if value is not None and isfinite(value) and value == int(value):
            value = int(value)
    if scalar_kind(value) != "number":
        problem = f"`{key}` takes a number, not `{child.plain_value}`"
        raise UntranslatableError(problem, where=child.where, help="Lumyn fails when it decides")
    return float(value) if isinstance(value, float) else int(value)
