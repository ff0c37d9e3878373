"""Sinks: who is told about each decision. A sink that fails never changes a decision."""

import logging
from collections.abc import Callable, Iterable

from demur.model.record import DecisionRecord

__all__ = ["Sink", "tell"]

Sink = Callable[[DecisionRecord], None]

_log = logging.getLogger("demur")


def tell(sinks: Iterable[Sink], record: DecisionRecord) -> None:
    """Hand the record to every sink, also if one of them fails."""
    for sink in sinks:
        try:
            sink(record)
        except Exception:  # noqa: BLE001 - whatever a sink raises is its own affair
            _log.exception("a sink failed for decision %s", record.decision_id)
