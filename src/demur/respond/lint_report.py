"""The report of the refusal linter: rules, verdicts and problems, and facts of a decision."""

from enum import StrEnum
from importlib.resources import files
from typing import NamedTuple

import msgspec

from demur.codes.entry import Entry
from demur.codes.loading import default_registry, registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Obligation, RefusalClass
from demur.model.decision import Decision
from demur.model.finding import Span
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal


class RefusalPart(StrEnum):
    """The five parts of a graceful refusal, in the order a reader expects them."""

    ACKNOWLEDGMENT = "acknowledgment"
    BOUNDARY = "boundary"
    REASON = "reason"
    ALTERNATIVES = "alternatives"
    ENGAGEMENT = "engagement"


class RefusalVerdict(StrEnum):
    """The verdict on a refusal, by its worst problem.

    `unjudged`: its language is not known, and its structure shows nothing wrong.
    """

    UNSAFE = "unsafe"
    PREACHY = "preachy"
    ROBOTIC = "robotic"
    INCOMPLETE = "incomplete"
    AWKWARD = "awkward"
    GRACEFUL = "graceful"
    NOT_A_REFUSAL = "not_a_refusal"
    UNJUDGED = "unjudged"


class FoundPart(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the text that belongs to one part."""

    part: RefusalPart
    span: Span


class RefusalProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem of a refusal. Without a span, something is missing."""

    rule: str
    message: str
    help: str
    span: Span | None = None
    part: RefusalPart | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class RefusalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of the linter on one text.

    `score` runs from 0 to 100 and is None where nothing was judged. `locale` names the
    language whose marks were used, or is None if there are none for it. `notes` say what
    limits the judgement.
    """

    verdict: RefusalVerdict
    score: int | None
    locale: str | None
    parts: tuple[FoundPart, ...] = ()
    problems: tuple[RefusalProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def present_parts(self) -> frozenset[RefusalPart]:
        """The parts that the text has."""
        return frozenset(found.part for found in self.parts)

    @property
    def broken_rules(self) -> frozenset[str]:
        """The rules that were broken."""
        return frozenset(problem.rule for problem in self.problems)


class LintRule(msgspec.Struct, frozen=True):
    """One rule: its message, its hint, and the verdict it leads to."""

    message: str
    help: str
    verdict: RefusalVerdict
    # The points it takes off a score of 100.
    weight: int


class _LintRuleFile(msgspec.Struct, frozen=True):
    schema_version: str
    rules: dict[str, LintRule]
    # Message and hint for each part that can be missing.
    missing_parts: dict[RefusalPart, tuple[str, str]]


_SOURCE = files("demur.respond") / "lint_rules.json"
_FILE = msgspec.json.decode(_SOURCE.read_bytes(), type=_LintRuleFile)
LINT_RULES = _FILE.rules
MISSING_PART_TEXTS = _FILE.missing_parts

# A decision in any form: itself, its record, its refusal, or its code alone.
DecisionLike = Decision | DecisionRecord | Refusal | str

_CRISIS = ReasonCode.CRISIS_ESCALATION
_ASKING = frozenset({ReasonCode.OBJECTIVE_UNCLEAR, ReasonCode.SCOPE_MISSING})


class LintContext(NamedTuple):
    """The facts of a decision that the checks need. Without one, every field is empty."""

    refusal_class: RefusalClass | None = None
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    crisis: bool = False
    # A question is due, not a refusal.
    asks: bool = False
    # Codes and rules, which the text must not show.
    names: frozenset[str] = frozenset()


def make_lint_context(decision: DecisionLike | None) -> LintContext:
    """Return the facts of the decision that the checks need.

    Raises:
        UnknownCodeError: It was given as a code that is not registered.
    """
    if decision is None:
        return LintContext()
    if isinstance(decision, str):
        return _context_from_code(default_registry()[decision])
    if isinstance(decision, Refusal):
        entry = registry_or_core().get(decision.code)
        known = LintContext() if entry is None else _context_from_code(entry)
        return LintContext(
            refusal_class=decision.refusal_class,
            crisis=known.crisis or decision.parent == _CRISIS,
            asks=known.asks,
            names=frozenset({decision.code}),
        )
    rules = decision.matched_rules if isinstance(decision, DecisionRecord) else ()
    codes = decision.reason_codes
    return LintContext(
        refusal_class=decision.refusal_class,
        missing=decision.missing,
        constraints=decision.constraints,
        crisis=_CRISIS in codes or Obligation.CRISIS_RESOURCES in decision.obligations,
        asks=decision.leading_code in _ASKING,
        names=frozenset(codes) | {rule.rule_id for rule in rules},
    )


def _context_from_code(entry: Entry) -> LintContext:
    return LintContext(
        refusal_class=entry.refusal_class,
        crisis=entry.code == _CRISIS or Obligation.CRISIS_RESOURCES in entry.obligations,
        asks=entry.code in _ASKING,
        names=frozenset({str(entry.code)}),
    )
