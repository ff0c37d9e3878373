"""A signal: what a reader found in a response, before it becomes a refusal."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from demur.codes.vocabulary import RefusalClass, Surface
from demur.model.refusal import Refusal
from demur.providers.shape import Shape

__all__ = ["Outcome", "Signal", "strongest"]


class Outcome(StrEnum):
    """What a native value says about the answer.

    `refusal`: it was refused. `not_judged`: a guard broke or looked at a part only.
    `detect_only`: something was seen and nothing was done. `not_a_refusal`: none of these.
    """

    REFUSAL = "refusal"
    NOT_JUDGED = "not_judged"
    DETECT_ONLY = "detect_only"
    NOT_A_REFUSAL = "not_a_refusal"


_RANK = {
    Outcome.REFUSAL: 3,
    Outcome.NOT_JUDGED: 2,
    Outcome.DETECT_ONLY: 1,
    Outcome.NOT_A_REFUSAL: 0,
}


class Signal(NamedTuple):
    """One native signal, read: who said it, where it stood, verbatim, and what it means here.

    `name` says who refused (`anthropic.messages`); `native` is the value at `path` as it came.
    `code` is a registered code, or None where the outcome needs none. An empty `detail` is
    filled in from path and value. `served_by` names what answered instead; then the refusal
    was followed by success. `confidence` is for judged words only, never for a typed value.
    `refusal_class` is the class of the code; it ranks signals, the registry decides.
    `refusal` is an envelope of our own that came through whole; it is handed on as it is.
    `settles` says that no other reader need be asked, even where nothing was refused: a more
    exact word stands beside the one that they would read. Where that holds for a part of the
    answer, `leaves` is the shape of the rest, which they are asked about instead.
    """

    name: str
    path: str
    native: Any
    code: str | None
    outcome: Outcome = Outcome.REFUSAL
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    surface: Surface | None = None
    served_by: str | None = None
    confidence: float | None = None
    request_id: str | None = None
    refusal_class: RefusalClass | None = None
    refusal: Refusal | None = None
    settles: bool = False
    leaves: Shape | None = None

    @property
    def tells(self) -> bool:
        """Whether a caller must hear of it: refused, or not judged."""
        return self.outcome in {Outcome.REFUSAL, Outcome.NOT_JUDGED}

    @property
    def weight(self) -> tuple[int, int]:
        """How much the signal matters beside others: its outcome, then its class."""
        strictness = 0 if self.refusal_class is None else self.refusal_class.strictness
        return _RANK[self.outcome], strictness


def strongest(signals: Iterable[Signal | None]) -> Signal | None:
    """Return the signal that decides: refused before not judged before detected.

    Among refusals the strictest class wins, and among equals the one that stands first.
    """
    found = [signal for signal in signals if signal is not None]
    return max(found, key=lambda signal: signal.weight, default=None)
