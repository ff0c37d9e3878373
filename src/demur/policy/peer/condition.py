"""The peer's conditions in demur's form.

There a comparison is one key, `evidence.risk_gte: 0.8`; here it is a field and an
operator. Where the peer is silently wrong, the right meaning is taken and remarked;
a rule that stops something keeps stopping all that it stopped.
"""

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

from demur.policy.operands import kind_of
from demur.policy.peer.remark import CannotCarryError, Remarks
from demur.source.item import Item
from demur.source.suggest import did_you_mean

__all__ = ["Asked", "asked"]

_AMOUNTS = {f"amount_usd_{operator}": operator for operator in ("gt", "gte", "lt", "lte")}
_CURRENCIES = {"amount_currency_is": "is", "amount_currency_ne": "ne"}
# Lumyn's validator accepts these, and its engine never matches them.
_NEVER = ("action_type", "amount_currency", "amount_usd")
_KNOWN = (*_AMOUNTS, *_CURRENCIES, *_NEVER, "evidence.NAME_is")
_EVIDENCE = re.compile(r"(evidence\.[A-Za-z_][\w-]*)_(is|ne|in|gte|gt|lte|lt)\Z", re.ASCII)
_TEXTS = ("action_type", "amount_currency")
_CALLERS_RATE = "evidence.fx_rate_to_usd"

_Mapping = dict[str, Any]


class Asked(NamedTuple):
    """A condition in demur's form. `never` says that Lumyn could never have matched it."""

    condition: _Mapping
    never: bool


class _Leaf(NamedTuple):
    """One comparison, as alternatives of which one must hold."""

    alternatives: tuple[tuple[str, str, Any], ...]
    never: bool = False


def asked(rule: Mapping[str, Item], remarks: Remarks, *, allows: bool) -> Asked:
    """Return the condition that `when`, `if`, `if_all` and `if_any` of a rule form together.

    Raises:
        CannotCarryError: A part of it cannot be translated.
    """
    reader = _Reader(remarks, allows=allows)
    whole = _Whole()
    for leaf in reader.when(rule.get("when")):
        whole.add(leaf)
    for item in (rule.get("if"), *_items(rule.get("if_all"), "if_all")):
        for leaf in reader.mapping(item):
            whole.add(leaf)
    reader.any(rule.get("if_any"), whole)
    return Asked(whole.condition(), whole.never)


def _items(item: Item | None, what: str) -> list[Item]:
    if item is None or item.value is None:
        return []
    if not isinstance(item.value, list):
        raise CannotCarryError(f"`{what}` is a list of conditions", where=item.where)
    return item.value


class _Whole:
    """Combines comparisons that must all hold, as flat as possible."""

    def __init__(self) -> None:
        self.never = False
        self._fields: dict[str, _Mapping] = {}
        self._groups: list[_Mapping] = []

    def add(self, leaf: _Leaf) -> None:
        self.never = self.never or leaf.never
        if len(leaf.alternatives) > 1:
            self.group([_written({path: {op: value}}) for path, op, value in leaf.alternatives])
            return
        path, operator, operand = leaf.alternatives[0]
        operators = self._fields.setdefault(path, {})
        if operators.setdefault(operator, operand) != operand:
            self._groups.append(_written({path: {operator: operand}}))

    def group(self, alternatives: list[_Mapping]) -> None:
        group = {"any": alternatives}
        if group not in self._groups:
            self._groups.append(group)

    def condition(self) -> _Mapping:
        flat = _written(self._fields)
        if len(self._groups) == 1:
            # A single group goes beside the fields: no field is called `any` or `all`.
            [group] = self._groups
            return {**flat, **group} if "any" in group else {**flat, "all": [group]}
        return {**flat, "all": self._groups} if self._groups else flat


def _written(fields: Mapping[str, _Mapping]) -> _Mapping:
    """Return fields in short form: a plain value instead of `eq`."""
    return {
        path: operators["eq"] if list(operators) == ["eq"] else dict(operators)
        for path, operators in fields.items()
    }


class _Reader:
    def __init__(self, remarks: Remarks, *, allows: bool) -> None:
        self._remarks = remarks
        self._allows = allows

    def when(self, item: Item | None) -> Iterator[_Leaf]:
        for key, where, child in _pairs(item, "when"):
            if key == "action_type_in":
                self._remarks.add(
                    "ignored-key",
                    where,
                    "Lumyn ignores `action_type_in` and applies the rule to every action; "
                    "here it applies to those that are named",
                    "check that nothing relied on the rule for other actions",
                )
                values = child.value if isinstance(child.value, list) else [child]
                yield self._list("action_type", where, [one.value for one in values])
            elif key != "action_type":
                raise _unknown(key, where, ("action_type", "action_type_in"))
            elif child.value:
                yield self._equal("action_type", child.where, child.value)

    def mapping(self, item: Item | None) -> Iterator[_Leaf]:
        for key, where, child in _pairs(item, "a condition"):
            leaf = self._leaf(key, where, child)
            if leaf.never:
                self._never(key, where)
            yield leaf

    def any(self, item: Item | None, whole: _Whole) -> None:
        branches: list[_Whole] = []
        for child in _items(item, "if_any"):
            branch = _Whole()
            for leaf in self.mapping(child):
                branch.add(leaf)
            branches.append(branch)
        live = [branch for branch in branches if not branch.never]
        if branches and not live:
            whole.never = True
        # An import must not allow what Lumyn never allowed.
        kept = (live or branches) if self._allows else branches
        conditions = [branch.condition() for branch in kept]
        if all(conditions) and conditions:
            whole.group(conditions)

    def _never(self, key: str, where: str) -> None:
        message = f"Lumyn accepts `{key}` written like this and never matches it"
        if not self._allows:
            message += "; here the rule matches, and stops what it did not stop before"
        self._remarks.add("never-matched", where, message)

    def _leaf(self, key: str, where: str, child: Item) -> _Leaf:
        value = child.plain
        if key in _AMOUNTS or key == "amount_usd":
            self._rates(where)
        if key in _AMOUNTS:
            return _one("amount_usd", _AMOUNTS[key], _number(key, child))
        if key in _CURRENCIES:
            return self._evidence("amount_currency", _CURRENCIES[key], key, child)
        if key in _NEVER:
            value = _number(key, child) if key == "amount_usd" else value
            return self._equal(key, child.where, value)._replace(never=True)
        found = _EVIDENCE.match(key)
        if found is None:
            raise _unknown(key, where, _KNOWN)
        path, operator = found.groups()
        if path == _CALLERS_RATE:
            self._rates(where)
        elif value is not None:
            self._kinds(where)
        return self._evidence(path, operator, key, child)

    def _evidence(self, path: str, operator: str, key: str, child: Item) -> _Leaf:
        value = child.plain
        if operator == "is":
            return self._equal(path, child.where, value)
        if operator == "ne":
            return self._unequal(path, child.where, value)
        if operator != "in":
            return _one(path, operator, _number(key, child))
        listed = isinstance(value, list)
        leaf = self._list(path, child.where, value if listed else [value])
        return leaf._replace(never=not listed)

    def _equal(self, path: str, where: str, value: Any) -> _Leaf:
        if value is None:
            return _one(path, "missing", operand=True)
        return _one(path, "eq", _scalar(path, value, where))

    def _unequal(self, path: str, where: str, value: Any) -> _Leaf:
        if value is None:
            return _one(path, "exists", operand=True)
        leaf = _one(path, "ne", _scalar(path, value, where))
        if not self._allows:
            return _Leaf(((path, "missing", True), *leaf.alternatives))
        self._remarks.add(
            "unequal",
            where,
            f"to Lumyn a missing `{path}` is unequal to everything, so it allows; "
            "here a comparison with a missing field does not hold",
        )
        return leaf

    def _list(self, path: str, where: str, values: list[Any]) -> _Leaf:
        """Return the comparison with a list; values of several kinds become one list per kind."""
        lists: dict[str | None, list[Any]] = {}
        for value in values:
            if value is not None:
                same = lists.setdefault(kind_of(value), [])
                if _scalar(path, value, where) not in same:
                    same.append(value)
        alternatives = [(path, "in", same) for same in lists.values()]
        missing = [(path, "missing", True)] if None in values else []
        if not alternatives and not missing:
            problem = f"`{path}` is compared with an empty list, which nothing is in"
            raise CannotCarryError(problem, where=where)
        return _Leaf((*missing, *alternatives))

    def _rates(self, where: str) -> None:
        self._remarks.add(
            "rates",
            where,
            "Lumyn converts an amount by the caller's own `evidence.fx_rate_to_usd` and takes "
            "negative ones; here an amount that is negative, or in a currency without a rate in "
            "the policy, is ABSTAIN by EVIDENCE_INVALID",
            "write your own rates into the policy, like `rates: {EUR: 1.08}`",
        )

    def _kinds(self, where: str) -> None:
        self._remarks.add(
            "kinds",
            where,
            "evidence of another kind than it is compared with (a text for a number, true for 1) "
            "makes a condition of Lumyn false or true by chance; here it is ABSTAIN by "
            "EVIDENCE_INVALID",
        )


def _pairs(item: Item | None, what: str) -> Iterator[tuple[str, str, Item]]:
    if item is None or item.value is None:
        return
    if not isinstance(item.value, dict):
        raise CannotCarryError(f"{what} is a mapping", where=item.where)
    for key, child in item.value.items():
        yield key, item.keys[key], child


def _one(path: str, operator: str, operand: Any) -> _Leaf:
    return _Leaf(((path, operator, operand),))


def _unknown(key: str, where: str, known: tuple[str, ...]) -> CannotCarryError:
    if key.startswith("evidence."):
        hint = "a name without dots and spaces, and one of _is _ne _in _gt _gte _lt _lte"
    else:
        hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
    return CannotCarryError(f"the condition `{key}` cannot be translated", where=where, help=hint)


def _scalar(path: str, value: Any, where: str) -> Any:
    kind = kind_of(value)
    if kind is None or (path in _TEXTS and kind != "text"):
        kinds = "a text" if path in _TEXTS else "a text, a number, true or false"
        raise CannotCarryError(f"`{path}` is compared with {kinds}", where=where)
    return value


def _number(key: str, child: Item) -> float:
    """Return a threshold. Lumyn also accepts a number as text."""
    value = child.plain
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
        if value is not None and isfinite(value) and value == int(value):
            value = int(value)
    if kind_of(value) != "number":
        problem = f"`{key}` takes a number, not `{child.plain}`"
        raise CannotCarryError(problem, where=child.where, help="Lumyn fails when it decides")
    return float(value) if isinstance(value, float) else int(value)
