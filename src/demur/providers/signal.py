"""A signal: what a reader found in a response, before it becomes a refusal."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from demur.codes.vocabulary import RefusalClass, Surface
from demur.model.refusal import Refusal
from demur.providers.shape import ResponseShape

__all__ = ["SignalOutcome", "Signal", "strongest_signal"]


class SignalOutcome(StrEnum):
    """The meaning of a native value.

    `refusal`: refused. `not_judged`: a guard failed or checked only a part. `detect_only`:
    something was detected and allowed. `not_a_refusal`: none of these.
    """

    REFUSAL = "refusal"
    NOT_JUDGED = "not_judged"
    DETECT_ONLY = "detect_only"
    NOT_A_REFUSAL = "not_a_refusal"


_RANK = {
    SignalOutcome.REFUSAL: 3,
    SignalOutcome.NOT_JUDGED: 2,
    SignalOutcome.DETECT_ONLY: 1,
    SignalOutcome.NOT_A_REFUSAL: 0,
}


class Signal(NamedTuple):
    """One native signal: its source, its place, its verbatim value and its meaning.

    `name` is the source (`anthropic.messages`); `native` is the original value at `path`.
    `code` is a registered code, or None if the outcome needs none. An empty `detail` is built
    from path and value. `served_by` names the model that answered instead. `confidence` is
    set for matched words only, never for a typed value. `refusal_class` is the class of the
    code and ranks signals; the registry decides. `refusal` is an envelope of demur, passed on
    unchanged. `settles` stops other readers, even if nothing was refused: this signal is more
    exact than the value they would read. If that holds for a part of the answer, `leaves` is
    the shape of the rest, which other readers get instead.
    """

    name: str
    path: str
    native: Any
    code: str | None
    outcome: SignalOutcome = SignalOutcome.REFUSAL
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    surface: Surface | None = None
    served_by: str | None = None
    confidence: float | None = None
    request_id: str | None = None
    refusal_class: RefusalClass | None = None
    refusal: Refusal | None = None
    settles: bool = False
    leaves: ResponseShape | None = None

    @property
    def must_report(self) -> bool:
        """Whether the caller must be told: refused, or not judged."""
        return self.outcome in {SignalOutcome.REFUSAL, SignalOutcome.NOT_JUDGED}

    @property
    def weight(self) -> tuple[int, int]:
        """The rank of the signal: by outcome, then by class."""
        strictness = 0 if self.refusal_class is None else self.refusal_class.strictness
        return _RANK[self.outcome], strictness


def strongest_signal(signals: Iterable[Signal | None]) -> Signal | None:
    """Return the deciding signal: refused before not judged before detected.

    Among refusals the strictest class wins, and among equals the first.
    """
    found = [signal for signal in signals if signal is not None]
    return max(found, key=lambda signal: signal.weight, default=None)
