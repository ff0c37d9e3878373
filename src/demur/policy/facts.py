"""Facts: what a rule can read of a request, and in which state it is.

A fact is usable, missing, or unusable. The difference matters: a missing fact makes
a comparison not hold, an unusable one makes it impossible to judge.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from demur.model.finding import Finding
from demur.policy.operands import scalar_kind

__all__ = [
    "FINDING_FACTS",
    "MISSING",
    "ROOTS",
    "SHORTCUTS",
    "UNUSABLE",
    "Facts",
    "amount_in_usd",
    "build_facts",
    "fetch_fact",
]


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
    "subject",
    "tenant",
    "trace",
)
SHORTCUTS = {"action_type": "action.type", "amount_currency": "action.amount.currency"}
FINDING_FACTS = ("findings.codes", "findings.surfaces", "findings.count")

Facts = Mapping[str, Any]

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


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

    MISSING without an amount; UNUSABLE if it is negative, not a number, or in a currency
    without a rate in the policy.
    """
    value, currency = (
        fetch_fact(facts, "action.amount.value"),
        fetch_fact(facts, "action.amount.currency"),
    )
    if value is MISSING:
        return MISSING if currency is MISSING else UNUSABLE
    number = _parse_amount(value)
    if number is None or not isinstance(currency, str):
        return UNUSABLE
    if currency == "USD":
        return number
    rate = rates.get(currency)
    try:
        return UNUSABLE if rate is None else number * rate
    except OverflowError:
        return UNUSABLE


def _parse_amount(value: Any) -> float | None:
    """Return an amount as a number: finite, not negative, a number or its decimal text."""
    if isinstance(value, str):
        value = float(value) if _DECIMAL.fullmatch(value) else None
    return value if scalar_kind(value) == "number" and value >= 0 else None
