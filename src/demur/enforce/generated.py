"""The result of a guarded model call."""

from typing import NamedTuple

from demur.codes.vocabulary import Obligation
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal

__all__ = ["GuardedAnswer"]


class GuardedAnswer(NamedTuple):
    """An answer that may be shown, even if the call was refused or failed.

    `text` is the model's answer, or the text to show instead. `blocked` says that the call was
    refused, and `refusal` why: `str(refusal)` is the line for logs. If the model itself failed,
    `error` is set and `blocked` is false. `obligations` must always be met: a person reviews
    the call, and the `resources`, which `text` already holds, are shown.
    """

    text: str
    blocked: bool = False
    findings: tuple[Finding, ...] = ()
    record: DecisionRecord | None = None
    refusal: Refusal | None = None
    error: Finding | None = None
    obligations: tuple[Obligation, ...] = ()
    resources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text
