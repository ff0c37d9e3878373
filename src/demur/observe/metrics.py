"""Prometheus metrics of decisions and guards.

One object is a sink of gates, a monitor of guards, and the source of `/metrics`. Series that
alerts use exist from the start, at zero: if a counter first appeared with its first event,
`increase` would miss that event.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

from demur.codes.loading import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.monitor import Activation, Monitor
from demur.model.record import DecisionRecord
from demur.observe.labels import NONE, MetricLabels, require_module

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


_MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a table lookup in memory to a guard that calls another machine.
_BUCKETS = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class _MetricSeries:
    """Caches the series of a metric by their labels; there are not many."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        # A metric without labels is its only series.
        self._known: dict[tuple[str, ...], Any] = {(): metric}

    def labels(self, *values: str) -> Any:
        series = self._known.get(values)
        if series is None:
            series = self._known[values] = self._metric.labels(*values)
        return series


class Metrics:
    """Counts decisions, reasons and guard activity. Safe to share between threads.

    The metrics are registered in `collector`, by default a new one. Guard activity is also
    forwarded to `monitor`.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        collector: "CollectorRegistry | None" = None,
        *,
        monitor: Monitor | None = None,
    ) -> None:
        self._prometheus = client = require_module("prometheus_client", "metrics", "observe")
        self.collector = client.CollectorRegistry() if collector is None else collector
        self.labels = MetricLabels(default_registry() if registry is None else registry)
        self._monitor = monitor
        self._decisions = self._counter("decisions", "Decisions.", "verdict", "output")
        self._classes = self._counter("decision_classes", "Decisions by refusal class.", "class")
        self._reasons = self._counter("reasons", "Decisions that a reason refused.", "code")
        self._refusals = self._counter(
            "refusals", "The same, with where it was seen.", "code", "class", "surface", "verdict"
        )
        self._lost = self._counter("storage_unavailable", "Decisions that could not be stored.")
        self._deciding = self._histogram("decision_seconds", "Time that decisions took.")
        self._activations = self._counter(
            "guard_activations", "What guards found.", "surface", "code", "action"
        )
        self._runs = self._counter(
            "guard_runs", "Looks of guards, by the strictest they asked for.", "surface", "action"
        )
        self._guarding = self._histogram("guard_seconds", "Time that guards took.", "surface")
        # Alerts see the first event of a series only if it existed before, at zero.
        for verdict, output in product(Verdict, DecisionOutput):
            self._decisions.labels(str(verdict), str(output))
        for name in (*map(str, RefusalClass), NONE):
            self._classes.labels(name)
        for code in self.labels.codes:
            self._reasons.labels(code)

    def _counter(self, name: str, words: str, *labels: str) -> _MetricSeries:
        make = self._prometheus.Counter
        return _MetricSeries(make(f"demur_{name}_total", words, labels, registry=self.collector))

    def _histogram(self, name: str, words: str, *labels: str) -> _MetricSeries:
        make = self._prometheus.Histogram
        into = {"registry": self.collector, "buckets": _BUCKETS}
        return _MetricSeries(make(f"demur_{name}", words, labels, **into))

    # -- a sink of gates -------------------------------------------------------------------

    def count_decision(self, record: DecisionRecord) -> None:
        """Count a decision. This is a gate's sink."""
        labels = self.labels
        verdict = labels.verdict_label(record.verdict)
        self._decisions.labels(verdict, labels.output_label(record.decision_output)).inc()
        self._classes.labels(labels.class_label(record.refusal_class)).inc()
        for reason in labels.iter_reasons(record):
            self._reasons.labels(reason.code).inc()
            self._refusals.labels(reason.code, reason.refusal_class, reason.surface, verdict).inc()
        if ReasonCode.STORAGE_UNAVAILABLE in record.reason_codes:
            self._lost.labels().inc()

    @contextmanager
    def time_decision(self) -> Iterator[None]:
        """Time the decision made in the body."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._deciding.labels().observe(time.perf_counter() - began)

    # -- a monitor of guards ---------------------------------------------------------------

    def record(self, activation: Activation) -> None:
        """Count an activation."""
        labels = self.labels
        self._activations.labels(
            labels.surface_label(activation.surface),
            labels.code_label(activation.code),
            labels.action_label(activation.action),
        ).inc()
        if self._monitor is not None:
            self._monitor.record(activation)

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard."""
        labels = self.labels
        self._runs.labels(labels.surface_label(surface), labels.action_label(action)).inc()
        if self._monitor is not None:
            self._monitor.count_run(surface, guard, action)

    def record_duration(self, surface: str, guard: str, seconds: float) -> None:
        """Record the duration of a guard's run, with or without findings."""
        self._guarding.labels(self.labels.surface_label(surface)).observe(seconds)
        forward = getattr(self._monitor, "record_duration", None)
        if forward is not None:
            forward(surface, guard, seconds)

    @contextmanager
    def time_guards(self, surface: str) -> Iterator[None]:
        """Time guards that run outside a pipeline."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.record_duration(surface, "", time.perf_counter() - began)

    # -- what is served --------------------------------------------------------------------

    @property
    def content_type(self) -> str:
        """The media type of the rendered metrics."""
        return _CONTENT_TYPE

    def render_metrics(self) -> bytes:
        """Return all metrics as text; of all processes, if they share a directory."""
        client, source = self._prometheus, self.collector
        if os.environ.get(_MULTIPROCESS_VARIABLE):
            source = client.CollectorRegistry()
            module = require_module("prometheus_client.multiprocess", "metrics")
            module.MultiProcessCollector(source)
        return bytes(client.exposition.generate_latest(source))
