"""A policy as a value: stages, rules, conditions and outcomes, and conditions in words."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from demur.codes.vocabulary import Obligation, Verdict


class Stage(StrEnum):
    """The stage of a rule. Every stage is evaluated; reports follow this order."""

    REQUIREMENTS = "REQUIREMENTS"
    HARD_BLOCKS = "HARD_BLOCKS"
    ESCALATIONS = "ESCALATIONS"
    ALLOW_PATHS = "ALLOW_PATHS"


class Mode(StrEnum):
    """Whether a verdict binds the caller, or only goes on record."""

    ENFORCE = "enforce"
    ADVISORY = "advisory"


class Operator(StrEnum):
    """How a fact is compared."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NOT_IN = "not_in"
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    MATCHES = "matches"
    EXISTS = "exists"
    MISSING = "missing"


class Compare(NamedTuple):
    """One comparison of one fact."""

    path: str
    operator: Operator
    operand: Any


class All(NamedTuple):
    """Holds if every part holds."""

    parts: tuple["Condition", ...]


class AnyOf(NamedTuple):
    """Holds if one part holds."""

    parts: tuple["Condition", ...]


class Not(NamedTuple):
    """Holds if the part is false. A missing or unusable fact leaves it undecided."""

    part: "Condition"


Condition = Compare | All | AnyOf | Not


class RuleOutcome(NamedTuple):
    """What a rule concludes where it matches; `approvals` different people must lift it."""

    verdict: Verdict
    reason_codes: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    approvals: int = 1


class PolicyRule(NamedTuple):
    """One rule. demur evaluates and reports a shadow rule, but does not count it."""

    id: str
    stage: Stage
    condition: Condition
    then: RuleOutcome
    shadow: bool
    where: str
    reads_findings: bool


class ShadowedCode(NamedTuple):
    """A code whose findings do not count here, and why."""

    code: str
    reason: str


class Policy(NamedTuple):
    """A checked policy. Rules are in order of stage, then as written.

    `text` is the source. `digest` covers the content and ignores spacing.
    """

    policy_id: str
    policy_version: str
    mode: Mode
    default: RuleOutcome
    rates: Mapping[str, float]
    shadows: tuple[ShadowedCode, ...]
    rules: tuple[PolicyRule, ...]
    digest: str
    where: str
    text: str


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
    # A part that is a list of several itself goes in brackets.
    return link.join(
        f"({describe_condition(part)})"
        if isinstance(part, All | AnyOf) and len(part.parts) > 1
        else describe_condition(part)
        for part in parts
    )


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
