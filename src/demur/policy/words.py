"""Conditions in plain words, on one line."""

from collections.abc import Sequence
from typing import Any

from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator

__all__ = ["describe_condition"]

_VERBS = {
    Operator.EQ: "is",
    Operator.NE: "is not",
    Operator.GT: "is over",
    Operator.GTE: "is at least",
    Operator.LT: "is under",
    Operator.LTE: "is at most",
    Operator.IN: "is one of",
    Operator.NOT_IN: "is none of",
    Operator.CONTAINS: "contains",
    Operator.STARTS_WITH: "starts with",
    Operator.MATCHES: "matches",
    Operator.EXISTS: "is there",
    Operator.MISSING: "is missing",
}
_SPECIAL = frozenset(" ,()'\"")


def describe_condition(condition: Condition) -> str:
    """Return the condition in plain words, as part of a sentence."""
    match condition:
        case Compare():
            return _describe_comparison(condition)
        case Not(part):
            return f"not ({describe_condition(part)})"
        case All(()):
            return "always"
        case All(parts):
            return _join_parts(parts, " and ")
        case AnyOf(parts):
            return _join_parts(parts, " or ")


def _join_parts(parts: Sequence[Condition], link: str) -> str:
    if len(parts) == 1:
        return describe_condition(parts[0])
    return link.join(_group_part(part) for part in parts)


def _group_part(part: Condition) -> str:
    """Return a part in words, in brackets if it is a list of several itself."""
    many = isinstance(part, All | AnyOf) and len(part.parts) > 1
    return f"({describe_condition(part)})" if many else describe_condition(part)


def _describe_comparison(compare: Compare) -> str:
    words = f"{compare.path} {_VERBS[compare.operator]}"
    if compare.operator in {Operator.EXISTS, Operator.MISSING}:
        return words
    if isinstance(compare.operand, tuple):
        return f"{words} ({', '.join(map(_format_value, compare.operand))})"
    return f"{words} {_format_value(compare.operand)}"


def _format_value(value: Any) -> str:
    """Return a value as text; an ambiguous text is quoted."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (not value or _SPECIAL & set(value) or not value.isprintable()):
        return repr(value)
    return str(value)
