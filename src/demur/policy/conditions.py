"""Read conditions: paths, operators and their nesting."""

import re
from collections.abc import Iterator

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.model.request import GUARD_SIGNALS, MEMORY_SIGNALS
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS, find_contradiction, operand_problem
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator
from demur.source.item import SourceItem, did_you_mean

_PATH_PATTERN = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*\Z", re.ASCII)
_FINDING_OPERATORS = {
    "findings.codes": {Operator.CONTAINS},
    "findings.surfaces": {Operator.CONTAINS},
    "findings.count": {Operator.GT, Operator.GTE},
}
_ALWAYS = All(())
SIGNAL_ROOT = "signals."


def iter_comparisons(condition: Condition) -> Iterator[Compare]:
    """Yield every comparison in a condition."""
    match condition:
        case Compare():
            yield condition
        case Not(part):
            yield from iter_comparisons(part)
        case _:
            for part in condition.parts:
                yield from iter_comparisons(part)


def absent_paths(condition: Condition, *, negated: bool = False) -> Iterator[str]:
    """Yield the paths that the condition requires to be missing."""
    match condition:
        case Compare():
            if condition.operator is (Operator.EXISTS if negated else Operator.MISSING):
                yield condition.path
        case Not(part):
            yield from absent_paths(part, negated=not negated)
        case _:
            for part in condition.parts:
                yield from absent_paths(part, negated=negated)


def signal_paths(condition: Condition) -> frozenset[str]:
    """Return the signals that a condition reads."""
    paths = (compare.path for compare in iter_comparisons(condition))
    return frozenset(path for path in paths if path.startswith(SIGNAL_ROOT))


def absent_signals(condition: Condition) -> tuple[str, ...]:
    """Return the signals that a condition requires to be missing."""
    found = (path for path in absent_paths(condition) if path.startswith(SIGNAL_ROOT))
    return tuple(dict.fromkeys(found))


def reads_findings(condition: Condition) -> bool:
    """Return whether any comparison reads findings."""
    return any(compare.path.startswith("findings.") for compare in iter_comparisons(condition))


class ConditionReader:
    """Turns items into conditions and reports their problems."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read_condition(self, rule: SourceItem) -> Condition:
        """Return the condition under `if`; a rule without one always applies."""
        item = rule.require_item("if", "write `if: {}` for a rule that always applies")
        return _ALWAYS if item is None else self._read_mapping(item, negated=False)

    def _read_mapping(self, item: SourceItem, *, negated: bool) -> Condition:
        if not isinstance(item.value, dict):
            item.report("a condition is a mapping", "like `action_type: refund`")
            return _ALWAYS
        parts: list[Condition] = []
        for key in item.value:
            parts += self._read_part(key, item, negated=negated)
        path = find_contradiction(part for part in parts if isinstance(part, Compare))
        if path is not None:
            item.report(f"no value of `{path}` can satisfy this condition")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _read_part(self, key: str, parent: SourceItem, *, negated: bool) -> Iterator[Condition]:
        child = parent.value[key]
        if key in {"all", "any"}:
            yield self._read_group(key, child, negated=negated)
        elif key == "not":
            yield Not(self._read_mapping(child, negated=True))
        elif path := _resolve_path(key, parent):
            for operator, operand in _read_operators(child):
                yield from self._read_comparison(path, operator, operand, negated=negated)

    def _read_group(self, key: str, child: SourceItem, *, negated: bool) -> Condition:
        if not isinstance(child.value, list) or not child.value:
            child.report(f"`{key}` takes a list of conditions")
            return _ALWAYS
        parts = tuple(self._read_mapping(item, negated=negated) for item in child.value)
        if key == "all":
            return All(parts)
        compares = (compare for part in parts for compare in iter_comparisons(part))
        reads = {compare.path in _FINDING_OPERATORS for compare in compares}
        if len(reads) > 1:
            # Otherwise a finding would decide a condition that an unusable fact leaves open.
            child.report("`any` cannot mix findings with other fields", "write one rule for each")
        return AnyOf(parts)

    def _read_comparison(
        self, path: str, operator: Operator, item: SourceItem, *, negated: bool
    ) -> Iterator[Compare]:
        operand = item.plain_value
        problem = operand_problem(operator, operand)
        if problem is not None:
            item.report(problem)
            return
        # INVARIANT: a finding can only ever make a condition hold, never stop it from holding.
        ways = _FINDING_OPERATORS.get(path)
        if ways is not None and (negated or operator not in ways):
            item.report(f"`{path}` may be read only positively, by {' or '.join(sorted(ways))}")
        elif path == "findings.codes":
            item.look_up(lambda code: self._registry[str(code)])
        elif path == "findings.surfaces":
            item.match_word(Surface, "surface")
        yield Compare(path, operator, tuple(operand) if isinstance(operand, list) else operand)


def _resolve_path(key: str, parent: SourceItem) -> str | None:
    path = SHORTCUTS.get(key, key)
    root = path.split(".")[0]
    if path == "amount_usd":
        return path
    if not _PATH_PATTERN.match(path) or root not in ROOTS:
        known = (*SHORTCUTS, "amount_usd", *ROOTS, "all", "any", "not")
        hint = did_you_mean(root, known) or f"one of {', '.join(known)}"
        parent.report_key(key, f"unknown field `{key}`", hint)
        return None
    if root == "findings" and path not in FINDING_FACTS:
        parent.report_key(key, f"unknown field `{key}`", f"one of {', '.join(FINDING_FACTS)}")
        return None
    if root == "signals":
        return _resolve_signal(path, key, parent)
    return path


def _resolve_signal(path: str, key: str, parent: SourceItem) -> str | None:
    if path in {"signals", f"signals.{GUARD_SIGNALS}"}:
        parent.report_key(key, f"`{key}` names no signal", f"name one, like `{key}.fraud_score`")
        return None
    if path.split(".")[1] in MEMORY_SIGNALS:
        help_text = "thresholds of memory are settings of the gate, under [memory]"
        parent.report_key(key, f"a rule cannot read `{key}`, which memory sets", help_text)
        return None
    return path


def _read_operators(child: SourceItem) -> Iterator[tuple[Operator, SourceItem]]:
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
