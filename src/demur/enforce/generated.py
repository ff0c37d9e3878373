"""What came of a guarded call of a model, as a value."""

from typing import NamedTuple

from demur.codes.vocabulary import Obligation
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal

__all__ = ["Generated"]


class Generated(NamedTuple):
    """An answer that may be shown, whatever came of the call.

    `text` is the model's answer, or what to say instead. `blocked` says that it was refused,
    and `refusal` why: `str(refusal)` is the line for logs. `error` is set, and `blocked` is
    not, if the model itself failed. `obligations` must be met whatever else is done: a person
    looks at it, and the `resources`, which `text` holds already, are shown.
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
