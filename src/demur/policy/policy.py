"""A policy as a value: rules in stages, what they ask and what they conclude."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from demur.codes.vocabulary import Obligation, Verdict

__all__ = [
    "All",
    "AnyOf",
    "Compare",
    "Condition",
    "Mode",
    "Not",
    "Operator",
    "RuleOutcome",
    "Policy",
    "PolicyRule",
    "ShadowedCode",
    "Stage",
]


class Stage(StrEnum):
    """The stage of a rule. Every stage is evaluated; reports follow this order."""

    REQUIREMENTS = "REQUIREMENTS"
    HARD_BLOCKS = "HARD_BLOCKS"
    ESCALATIONS = "ESCALATIONS"
    ALLOW_PATHS = "ALLOW_PATHS"


class Mode(StrEnum):
    """Whether a verdict binds the caller, or is recorded only."""

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
    """What a rule concludes where it matches."""

    verdict: Verdict
    reason_codes: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()


class PolicyRule(NamedTuple):
    """One rule. A shadow rule is evaluated and reported, but does not count."""

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
    """A checked policy. Rules are sorted by stage, then as written.

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
