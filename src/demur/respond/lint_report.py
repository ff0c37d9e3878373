"""What the linter says about a refusal: the parts it found, what is wrong, and one verdict."""

from enum import StrEnum

import msgspec

from demur.model.finding import Span

__all__ = ["FoundPart", "RefusalPart", "RefusalProblem", "RefusalReport", "RefusalVerdict"]


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
