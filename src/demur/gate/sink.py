"""Sinks: functions that receive each decision. A failing sink never changes a decision."""

import logging
from collections.abc import Callable, Iterable

from demur.model.record import DecisionRecord

__all__ = ["Sink", "notify_sinks"]

Sink = Callable[[DecisionRecord], None]

_log = logging.getLogger("demur")


def notify_sinks(sinks: Iterable[Sink], record: DecisionRecord) -> None:
    """Pass the record to every sink, even if one of them fails."""
    for sink in sinks:
        try:
            sink(record)
        except Exception:  # noqa: BLE001 - a sink may raise anything
            _log.exception("a sink failed for decision %s", record.decision_id)
