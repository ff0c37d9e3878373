"""The slow, obvious evaluator that the compiler is held to. Change it only with the specification.

Written to be read: no cleverness, no sharing with the code under test beyond the values.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from demur.codes.registry import Registry
from demur.model.finding import Finding
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Policy, PolicyRule

TRUE, FALSE, MISSING, INVALID = "true", "false", "missing", "invalid"
ORDER = ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]
ABSENT, BROKEN = object(), object()
NUMERAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda fact, operand: fact > operand,
    "gte": lambda fact, operand: fact >= operand,
    "lt": lambda fact, operand: fact < operand,
    "lte": lambda fact, operand: fact <= operand,
}


def evaluate(
    policy: Policy,
    request: Mapping[str, Any],
    findings: Sequence[Finding],
    registry: Registry,
    signals: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return verdict, codes, matched rules, unusable facts and missing signals."""
    facts = dict(request)
    facts["signals"] = signals or {}
    facts["findings"] = {
        "codes": [finding.code for finding in findings],
        "surfaces": [str(finding.surface) for finding in findings],
        "count": len(findings),
    }
    verdicts: list[str] = []
    approvals = 1
    codes: list[str] = []
    matched: list[str] = []
    shadows: list[str] = []
    broken: list[tuple[str, str]] = []
    missing: list[str] = []
    ordinary_match = False
    for rule in policy.rules:
        state = judge(rule.condition, facts, policy)
        if state == TRUE and rule.shadow:
            shadows.append(rule.id)
        elif state == TRUE:
            matched.append(rule.id)
            verdicts.append(rule.then.verdict)
            codes += rule.then.reason_codes
            approvals = max(approvals, rule.then.approvals)
            missing += asked_fields(rule, facts, policy)
            if not rule.reads_findings:
                ordinary_match = True
        elif state == INVALID and not rule.shadow:
            broken += [(rule.id, path) for path in broken_paths(rule.condition, facts, policy)]
    if broken:
        verdicts.append("ABSTAIN")
        codes.append("EVIDENCE_INVALID")
        missing += [field_to_correct(path, facts) for _, path in broken]
    gaps = missing_signals(policy, facts, matched)
    verdicts += ["ABSTAIN"] if gaps else []
    codes += ["CONTEXT_MISSING"] if gaps else []
    missing += [path for _, path in gaps]
    if not ordinary_match:
        verdicts.append(policy.default.verdict)
        codes += policy.default.reason_codes
    for finding in findings:
        in_shadow = finding.code in [shadow.code for shadow in policy.shadows]
        if not in_shadow and not only_warns(finding, registry):
            codes.append(finding.code)
            verdicts.append(floor(finding, registry))
    return {
        "verdict": max(verdicts, key=ORDER.index),
        "reason_codes": unique(codes),
        "matched_rules": matched,
        "shadow_rules": shadows,
        "invalid": unique(broken),
        "defaulted": not ordinary_match,
        "missing_signals": gaps,
        "missing": unique(missing),
        "approvals": approvals,
    }


def asked_fields(rule: PolicyRule, facts: Mapping[str, Any], policy: Policy) -> list[str]:
    """Return what a rule that matched asks for: absent fields, if they would change it."""
    if rule.then.verdict == "ALLOW":
        return []
    absent = absent_fields(rule.condition, True, facts, policy)
    written = [
        compared.path
        for compared, negated in comparisons(rule.condition)
        if compared.operator == ("exists" if negated else "missing")
    ]
    assert list(rule.then.missing) == unique(written), "the generator names nothing itself"
    return absent if absent is not None else []


def absent_fields(
    condition: Condition, holds: bool, facts: Mapping[str, Any], policy: Policy
) -> list[str] | None:
    """Return the absent fields to supply so that the condition no longer holds (or fails)."""
    if isinstance(condition, Not):
        return absent_fields(condition.part, not holds, facts, policy)
    if isinstance(condition, Compare):
        return (
            [condition.path] if condition.operator == ("missing" if holds else "exists") else None
        )
    current = TRUE if holds else FALSE
    parts = [part for part in condition.parts if judge(part, facts, policy) == current]
    answers = [absent_fields(part, holds, facts, policy) for part in parts]
    # `any` holds as long as one part does; `all` fails as long as one part does.
    all_must_change = isinstance(condition, AnyOf) if holds else isinstance(condition, All)
    if all_must_change and None in answers:
        return None
    named = [answer for answer in answers if answer is not None]
    return unique([path for answer in named for path in answer]) if named else None


def field_to_correct(path: str, facts: Mapping[str, Any]) -> str:
    """Return the field to supply: of an amount, the part that is absent."""
    if path != "amount_usd":
        return path
    value, currency = look(facts, "action.amount.value"), look(facts, "action.amount.currency")
    if value is ABSENT:
        return "action.amount.value"
    if isinstance(value, str):
        value = float(value) if re.fullmatch(NUMERAL, value, re.ASCII) else None
    sound = kind(value) == "number" and value >= 0
    return "action.amount.currency" if sound and currency is ABSENT else path


def missing_signals(
    policy: Policy, facts: Mapping[str, Any], matched: list[str]
) -> list[tuple[str, str]]:
    """Return the missing signals on which it depends whether a rule that refuses matches."""
    handled = {
        compared.path
        for rule in policy.rules
        if rule.id in matched and not rule.reads_findings
        for compared, negated in comparisons(rule.condition)
        if compared.operator == ("exists" if negated else "missing")
    }
    gaps = []
    for rule in policy.rules:
        if not rule.shadow and rule.then.verdict != "ALLOW":
            gaps += [(rule.id, path) for path in needed_signals(rule, facts, policy)]
    return [gap for gap in unique(gaps) if gap[1] not in handled]


def needed_signals(rule: PolicyRule, facts: Mapping[str, Any], policy: Policy) -> list[str]:
    """Try every outcome of the comparisons with missing signals; return those that matter."""
    open_ones = [
        compared
        for compared, _ in comparisons(rule.condition)
        if compared.path.startswith("signals.") and compare(compared, facts, policy) == MISSING
    ]
    matches = {
        outcomes: judge(replace_open(rule.condition, facts, policy, iter(outcomes)), facts, policy)
        == TRUE
        for outcomes in product([True, False], repeat=len(open_ones))
    }
    return [
        one.path
        for number, one in enumerate(open_ones)
        if any(
            holds != matches[(*outcomes[:number], not outcomes[number], *outcomes[number + 1 :])]
            for outcomes, holds in matches.items()
        )
    ]


def replace_open(
    condition: Condition, facts: Mapping[str, Any], policy: Policy, outcomes: Iterator[bool]
) -> Condition:
    """Return the condition with a fixed outcome for each comparison with a missing signal."""
    if isinstance(condition, Compare):
        is_open = condition.path.startswith("signals.")
        if is_open and compare(condition, facts, policy) == MISSING:
            return All(()) if next(outcomes) else AnyOf(())
        return condition
    if isinstance(condition, Not):
        return Not(replace_open(condition.part, facts, policy, outcomes))
    parts = tuple(replace_open(part, facts, policy, outcomes) for part in condition.parts)
    return All(parts) if isinstance(condition, All) else AnyOf(parts)


def comparisons(condition: Condition, *, negated: bool = False) -> list[tuple[Compare, bool]]:
    if isinstance(condition, Compare):
        return [(condition, negated)]
    if isinstance(condition, Not):
        return comparisons(condition.part, negated=not negated)
    return [pair for part in condition.parts for pair in comparisons(part, negated=negated)]


def only_warns(finding: Finding, registry: Registry) -> bool:
    entry = registry[finding.code]
    return finding.action == "warn" and entry.decided and not entry.obligations


def floor(finding: Finding, registry: Registry) -> str:
    entry = registry[finding.code]
    if not entry.decided:
        return "ABSTAIN"
    if entry.refusal_class is None:
        return "ALLOW"
    if entry.refusal_class == "HARD_BLOCK" and finding.action == "block":
        return "DENY"
    return "ESCALATE"


def unique(items: list[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def judge(condition: Condition, facts: Mapping[str, Any], policy: Policy) -> str:
    if isinstance(condition, Compare):
        return compare(condition, facts, policy)
    if isinstance(condition, Not):
        inner = judge(condition.part, facts, policy)
        return {TRUE: FALSE, FALSE: TRUE}.get(inner, inner)
    states = [judge(part, facts, policy) for part in condition.parts]
    if isinstance(condition, All):
        for state in (FALSE, INVALID, MISSING):
            if state in states:
                return state
        return TRUE
    assert isinstance(condition, AnyOf)
    for state in (TRUE, INVALID, MISSING):
        if state in states:
            return state
    return FALSE


def broken_paths(condition: Condition, facts: Mapping[str, Any], policy: Policy) -> list[str]:
    """Return the unusable facts that keep the condition from being judged."""
    if judge(condition, facts, policy) != INVALID:
        return []
    if isinstance(condition, Compare):
        return [condition.path]
    if isinstance(condition, Not):
        return broken_paths(condition.part, facts, policy)
    return [path for part in condition.parts for path in broken_paths(part, facts, policy)]


def compare(condition: Compare, facts: Mapping[str, Any], policy: Policy) -> str:
    fact = dollars(facts, policy) if condition.path == "amount_usd" else look(facts, condition.path)
    operator, operand = str(condition.operator), condition.operand
    if fact is BROKEN:
        return INVALID
    if operator in {"exists", "missing"}:
        return TRUE if (fact is ABSENT) == (operator == "missing") else FALSE
    if fact is ABSENT:
        return MISSING
    answer = test(operator, fact, operand)
    return INVALID if answer is None else TRUE if answer else FALSE


def test(operator: str, fact: Any, operand: Any) -> bool | None:
    if operator in ORDERINGS:
        return ORDERINGS[operator](fact, operand) if kind(fact) == "number" else None
    if operator in {"eq", "ne", "in", "not_in"}:
        values = list(operand) if operator in {"in", "not_in"} else [operand]
        same_kind = kind(fact) == kind(values[0])
        return ((fact in values) == (operator in {"eq", "in"})) if same_kind else None
    if operator == "contains":
        return contains(fact, operand)
    if not isinstance(fact, str):
        return None
    found = re.search(operand if operator == "matches" else f"^{re.escape(operand)}", fact)
    return found is not None


def contains(fact: Any, operand: Any) -> bool | None:
    if isinstance(fact, str) and isinstance(operand, str):
        return operand in fact
    if not isinstance(fact, list) or any(kind(item) is None for item in fact):
        return None
    return any(kind(item) == kind(operand) and item == operand for item in fact)


def kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        return "number"
    if isinstance(value, float) and math.isfinite(value):
        return "number"
    return None


def look(facts: Mapping[str, Any], path: str) -> Any:
    value: Any = facts
    for name in path.split("."):
        if not isinstance(value, dict):
            return BROKEN
        value = value.get(name)
        if value is None:
            return ABSENT
    return value


def dollars(facts: Mapping[str, Any], policy: Policy) -> Any:
    value, currency = look(facts, "action.amount.value"), look(facts, "action.amount.currency")
    if value is ABSENT:
        return ABSENT if currency is ABSENT else BROKEN
    if isinstance(value, str):
        value = float(value) if re.fullmatch(NUMERAL, value, re.ASCII) else None
    if kind(value) != "number" or not isinstance(currency, str):
        return BROKEN
    rates = {"USD": 1, **policy.rates}
    if value < 0 or currency not in rates:
        return BROKEN
    try:
        return value * rates[currency]
    except OverflowError:
        return BROKEN
