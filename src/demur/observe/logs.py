"""Log lines: one canonical line for each refusal, for `logging` and for structlog.

A line comes only from a typed refusal, never from a message: text that looks like a refusal is
not logged as one. Details are escaped, so they cannot forge a line.
"""

import logging
from collections.abc import MutableMapping
from typing import Any, Protocol, TextIO

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.gate.gate import Sink
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.observe.labels import MetricLabels, iter_refusals

_KEY = "refusal"


class RefusalLogger(Protocol):
    """A logger of `logging`, or a bound logger of structlog."""

    def log(self, level: int, message: str, /, *, extra: Any) -> Any:
        """Log a message with extra attributes."""


def log_refusals(
    logger: RefusalLogger | None = None,
    *,
    level: int = logging.WARNING,
    registry: Registry | None = None,
) -> Sink:
    """Return a sink that logs one line for each refusing reason of a decision."""
    labels = MetricLabels(default_registry() if registry is None else registry)
    target = logging.getLogger("demur.refusals") if logger is None else logger

    def sink(record: DecisionRecord) -> None:
        for refusal in iter_refusals(record, labels):
            log_refusal(target, refusal, level=level)

    return sink


def log_refusal(logger: RefusalLogger, refusal: Refusal, *, level: int = logging.WARNING) -> None:
    """Log a refusal: the message is its line, and the record carries the refusal itself."""
    # No arguments, so formatters do not interpolate the message.
    logger.log(level, refusal.line, extra={_KEY: refusal})


class RefusalHandler(logging.StreamHandler[TextIO]):
    """Writes one canonical line for each log record that carries a refusal, and no others.

    `prefix` is a `logging` format that precedes each line, such as `%(asctime)s `.
    """

    def __init__(self, stream: TextIO | None = None, *, prefix: str = "") -> None:
        super().__init__(stream)
        self._prefix = logging.Formatter(prefix) if prefix else None
        self.addFilter(lambda record: _record_refusal(record) is not None)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        refusal = _record_refusal(record)
        assert refusal is not None, "others are filtered out"
        if self._prefix is None:
            return refusal.line
        if self._prefix.usesTime():
            record.asctime = self._prefix.formatTime(record)
        return self._prefix.formatMessage(record) + refusal.line


def refusal_event(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A structlog processor: replace the event's text by the line of its refusal.

    It handles `log.warning("refused", refusal=refusal)` and `log_refusals(log)`.
    """
    extra = event.get("extra")
    within = extra if isinstance(extra, dict) and _KEY in extra else event
    refusal = within.get(_KEY)
    if not isinstance(refusal, Refusal):
        return event
    del event["extra" if within is extra else _KEY]
    event["event"] = refusal.line
    facts = _refusal_facts(refusal).items()
    event.update({key: value for key, value in facts if value is not None})
    return event


def _record_refusal(record: logging.LogRecord) -> Refusal | None:
    refusal = getattr(record, _KEY, None)
    return refusal if isinstance(refusal, Refusal) else None


def _refusal_facts(refusal: Refusal) -> dict[str, Any]:
    return {
        "refusal_code": refusal.code,
        "refusal_class": refusal.refusal_class and str(refusal.refusal_class),
        "refusal_surface": refusal.surface and str(refusal.surface),
        "refusal_advice": refusal.advice and str(refusal.advice),
        "refusal_decided": refusal.decided,
        "decision_id": refusal.decision_id,
    }
