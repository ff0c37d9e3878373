"""The refusals in a decision: one for each reason that refuses, ready for logs and traces."""

from collections.abc import Iterator

from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.observe.labels import OTHER, Labels

__all__ = ["refusals_of"]


def refusals_of(record: DecisionRecord, labels: Labels) -> Iterator[Refusal]:
    """Yield the refusals of a decision. Their detail names the decision, and nothing personal.

    Codes that are not registered have no refusal line and are left out.
    """
    for reason in labels.reasons(record):
        if reason.entry is not None:
            yield Refusal.of(
                reason.code,
                f"decision {record.decision_id}",
                surface=None if reason.surface == OTHER else reason.surface,
                decision_id=record.decision_id,
                registry=labels.registry,
            )
