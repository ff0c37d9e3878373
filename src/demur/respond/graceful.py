"""A graceful refusal: five parts that people want to read, and the way on that machines need."""

from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Advice, RefusalClass
from demur.respond.audience import Audience

__all__ = ["GracefulRefusal", "FiveParts", "RewordResult"]


class FiveParts(NamedTuple):
    """The five parts of a refusal that keeps the conversation open."""

    acknowledgment: str
    boundary: str
    reason: str
    alternatives: tuple[str, ...]
    engagement: str


class RewordResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the reworded text was accepted, and if not, why."""

    accepted: bool
    problems: tuple[str, ...] = ()


class GracefulRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal in words, for one audience. Build one with `compose`.

    `reason` is one sentence and serves twice: it is the third of the five parts, and the
    first of the four recovery fields. Each alternative completes the sentence that offers
    it, in English "I can …". `text` is the whole text for the audience; `line`, `code` and
    `next_step` are for programs, and `view` selects the fields an audience may see.
    """

    text: str
    acknowledgment: str
    boundary: str
    reason: str
    alternatives: tuple[str, ...]
    engagement: str
    what_can_be_done_now: str
    how_to_proceed: str
    next_step: Advice
    code: str
    refusal_class: RefusalClass
    line: str
    locale: str
    template: str
    audience: Audience = Audience.END_USER
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    # Facts that a reworded text must contain.
    facts: tuple[str, ...] = ()
    polish: RewordResult | None = None

    @property
    def parts(self) -> FiveParts:
        """The five parts alone."""
        return FiveParts(
            self.acknowledgment, self.boundary, self.reason, self.alternatives, self.engagement
        )

    def __str__(self) -> str:
        return self.text
