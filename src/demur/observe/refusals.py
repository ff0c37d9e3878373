"""The refusals in a decision: one for each reason that refuses, ready for logs and traces."""

from collections.abc import Iterator

from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.observe.labels import OTHER, MetricLabels

__all__ = ["iter_refusals"]


def iter_refusals(record: DecisionRecord, labels: MetricLabels) -> Iterator[Refusal]:
    """Yield the refusals of a decision. Their detail names the decision, and nothing personal.

    Codes that are not registered have no refusal line and are left out.
    """
    for reason in labels.iter_reasons(record):
        if reason.entry is not None:
            yield Refusal.from_code(
                reason.code,
                f"decision {record.decision_id}",
                surface=None if reason.surface == OTHER else reason.surface,
                decision_id=record.decision_id,
                registry=labels.registry,
            )
