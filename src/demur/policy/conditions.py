"""Read conditions: paths, operators and their nesting."""

import re
from collections.abc import Iterator

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS
from demur.policy.operands import impossible, operand_problem
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator
from demur.source.item import Item
from demur.source.suggest import did_you_mean

__all__ = ["ConditionReader", "absences", "compares", "reads_findings"]

_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*\Z", re.ASCII)
_POSITIVE = {
    "findings.codes": {Operator.CONTAINS},
    "findings.surfaces": {Operator.CONTAINS},
    "findings.count": {Operator.GT, Operator.GTE},
}
_NEVER = All(())


def compares(condition: Condition) -> Iterator[Compare]:
    """Yield every comparison in a condition."""
    match condition:
        case Compare():
            yield condition
        case Not(part):
            yield from compares(part)
        case _:
            for part in condition.parts:
                yield from compares(part)


def absences(condition: Condition, *, negated: bool = False) -> Iterator[str]:
    """Yield the paths that the condition requires to be missing."""
    match condition:
        case Compare():
            if condition.operator is (Operator.EXISTS if negated else Operator.MISSING):
                yield condition.path
        case Not(part):
            yield from absences(part, negated=not negated)
        case _:
            for part in condition.parts:
                yield from absences(part, negated=negated)


def reads_findings(condition: Condition) -> bool:
    """Return whether any comparison reads findings."""
    return any(compare.path.startswith("findings.") for compare in compares(condition))


class ConditionReader:
    """Turns items into conditions and reports their problems."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(self, rule: Item) -> Condition:
        """Return the condition under `if`; a rule without one always applies."""
        item = rule.needed("if", "write `if: {}` for a rule that always applies")
        return _NEVER if item is None else self._mapping(item, negated=False)

    def _mapping(self, item: Item, *, negated: bool) -> Condition:
        if not isinstance(item.value, dict):
            item.report("a condition is a mapping", "like `action_type: refund`")
            return _NEVER
        parts: list[Condition] = []
        for key in item.value:
            parts += self._part(key, item, negated=negated)
        plain = [part for part in parts if isinstance(part, Compare)]
        path = impossible(plain)
        if path is not None:
            item.report(f"no value of `{path}` can satisfy this condition")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _part(self, key: str, parent: Item, *, negated: bool) -> Iterator[Condition]:
        child = parent.value[key]
        if key in {"all", "any"}:
            yield self._group(key, child, negated=negated)
        elif key == "not":
            yield Not(self._mapping(child, negated=True))
        elif path := _path(key, parent):
            for operator, operand in _operators(child):
                yield from self._compare(path, operator, operand, negated=negated)

    def _group(self, key: str, child: Item, *, negated: bool) -> Condition:
        if not isinstance(child.value, list) or not child.value:
            child.report(f"`{key}` takes a list of conditions")
            return _NEVER
        parts = tuple(self._mapping(item, negated=negated) for item in child.value)
        if key == "all":
            return All(parts)
        reads = {compare.path in _POSITIVE for part in parts for compare in compares(part)}
        if len(reads) > 1:
            # Otherwise a finding would decide a condition that an unusable fact leaves open.
            problem = "`any` cannot mix findings with other fields"
            child.report(problem, "write one rule for each")
        return AnyOf(parts)

    def _compare(
        self, path: str, operator: Operator, item: Item, *, negated: bool
    ) -> Iterator[Compare]:
        operand = item.plain
        problem = operand_problem(operator, operand)
        if problem is not None:
            item.report(problem)
            return
        if path in _POSITIVE:
            self._finding(path, operator, item, negated=negated)
        yield Compare(path, operator, tuple(operand) if isinstance(operand, list) else operand)

    def _finding(self, path: str, operator: Operator, item: Item, *, negated: bool) -> None:
        # INVARIANT: a finding can only ever make a condition hold, never stop it from holding.
        if negated or operator not in _POSITIVE[path]:
            ways = " or ".join(sorted(_POSITIVE[path]))
            item.report(f"`{path}` may be read only positively, by {ways}")
        elif path == "findings.codes":
            item.look_up(lambda code: self._registry[str(code)])
        elif path == "findings.surfaces":
            item.one_of(Surface, "surface")


def _path(key: str, parent: Item) -> str | None:
    path = SHORTCUTS.get(key, key)
    root = path.split(".")[0]
    if path == "amount_usd":
        return path
    if not _PATH.match(path) or root not in ROOTS:
        known = (*SHORTCUTS, "amount_usd", *ROOTS, "all", "any", "not")
        hint = did_you_mean(root, known) or f"one of {', '.join(known)}"
        parent.report_key(key, f"unknown field `{key}`", hint)
        return None
    if root == "findings" and path not in FINDING_FACTS:
        parent.report_key(key, f"unknown field `{key}`", f"one of {', '.join(FINDING_FACTS)}")
        return None
    return path


def _operators(child: Item) -> Iterator[tuple[Operator, Item]]:
    if not isinstance(child.value, dict):
        yield Operator.EQ, child
        return
    if not child.value:
        child.report("an operator is missing", f"one of {', '.join(Operator)}")
    for key, operand in child.value.items():
        try:
            yield Operator(key), operand
        except ValueError:
            hint = did_you_mean(key, Operator) or f"one of {', '.join(Operator)}"
            child.report_key(key, f"unknown operator `{key}`", hint)
