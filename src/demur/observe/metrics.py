"""Prometheus metrics of decisions and guards.

One object is a sink of gates, a monitor of guards, and the source of `/metrics`. Series that
alerts use exist from the start, at zero: if a counter first appeared with its first event,
`increase` would miss that event.
"""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.codes.loading import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.monitor import Activation, Monitor
from demur.model.record import DecisionRecord
from demur.observe.labels import NONE, OTHER, MetricLabels, require_module
from demur.version import ENGINE_VERSION, __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


_MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a table lookup in memory to a guard that calls another machine.
_BUCKETS = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


# Pages and scans of logs take longer than decisions.
_CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_PID_OF_FILE = re.compile(r"_(\d+)\.db")


class _WorkerProcesses:
    """Collects the process metrics of all workers, by process id.

    The files in the shared folder name the processes; those that ended have no metrics.
    """

    def __init__(self, client: Any, folder: Path) -> None:
        self._client = client
        self._folder = folder

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics."""
        names = (_PID_OF_FILE.search(path.name) for path in self._folder.glob("*.db"))
        pids = sorted({name[1] for name in names if name})
        families: dict[str, Any] = {}
        for pid in pids:
            found = self._client.ProcessCollector(pid=partial(str, pid), registry=None)
            for family in found.collect():
                named = [one._replace(labels={**one.labels, "pid": pid}) for one in family.samples]
                kept = families.setdefault(family.name, family)
                kept.samples = named if kept is family else [*kept.samples, *named]
        yield from families.values()


class ServiceFigures(NamedTuple):
    """How a service runs: how long decisions took in seconds, and how its calls ended."""

    decisions: int
    p50_s: float | None
    p95_s: float | None
    calls: int
    client_errors: int
    server_errors: int


def find_bucket_quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return a quantile of cumulative counts by upper bound, as Prometheus estimates it."""
    total = max(buckets.values(), default=0)
    if not total:
        return None
    lower, below = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= share * total:
            inside = (share * total - below) / (count - below)
            # Of what exceeds every bound, only the largest one is known.
            return lower if isinf(bound) else lower + (bound - lower) * inside
        lower, below = bound, count
    return lower


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
        self._monitors = () if monitor is None else (monitor,)
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
        self._calls = self._counter("http_requests", "Calls.", "route", "method", "status")
        self._calling = self._histogram(
            "http_request_seconds",
            "Time that calls took.",
            "route",
            "method",
            buckets=_CALL_BUCKETS,
        )
        self._notices = self._counter(
            "approval_notices", "Notices of approvals, by what became of them.", "result"
        )
        for result in ("sent", "failed"):
            self._notices.labels(result)
        self._add_build_info()
        if collector is None:
            client.ProcessCollector(registry=self.collector)
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

    def _histogram(
        self, name: str, words: str, *labels: str, buckets: Sequence[float] = _BUCKETS
    ) -> _MetricSeries:
        make = self._prometheus.Histogram
        into = {"registry": self.collector, "buckets": buckets}
        return _MetricSeries(make(f"demur_{name}", words, labels, **into))

    def _add_build_info(self) -> None:
        """Add the metric that is always 1 and names the versions as labels."""
        python = ".".join(map(str, sys.version_info[:3]))
        info = self._prometheus.Gauge(
            "demur_build_info",
            "The versions of demur, of its engine and of Python.",
            ("version", "engine", "python"),
            registry=self.collector,
            multiprocess_mode="max",
        )
        info.labels(__version__, ENGINE_VERSION, python).set(1)

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

    def add_monitor(self, monitor: Monitor) -> None:
        """Forward guard activity to one more monitor."""
        self._monitors = (*self._monitors, monitor)

    # -- a monitor of guards ---------------------------------------------------------------

    def record(self, activation: Activation) -> None:
        """Count an activation."""
        labels = self.labels
        self._activations.labels(
            labels.surface_label(activation.surface),
            labels.code_label(activation.code),
            labels.action_label(activation.action),
        ).inc()
        for monitor in self._monitors:
            monitor.record(activation)

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard."""
        labels = self.labels
        self._runs.labels(labels.surface_label(surface), labels.action_label(action)).inc()
        for monitor in self._monitors:
            monitor.count_run(surface, guard, action)

    def record_duration(self, surface: str, guard: str, seconds: float) -> None:
        """Record the duration of a guard's run, with or without findings."""
        self._guarding.labels(self.labels.surface_label(surface)).observe(seconds)
        for monitor in self._monitors:
            forward = getattr(monitor, "record_duration", None)
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

    # -- calls of a service ----------------------------------------------------------------

    def count_notice(self, result: str) -> None:
        """Count an attempt to send a notice of an approval: `sent` or `failed`."""
        self._notices.labels(result).inc()

    def count_call(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a call of a route, which is a pattern; 0 is the status of a call without an answer.

        Only methods that the service knows become labels.
        """
        method = method if method in _METHODS else OTHER
        self._calls.labels(route, method, str(status) if status else NONE).inc()
        self._calling.labels(route, method).observe(seconds)

    def read_figures(self) -> "ServiceFigures":
        """Return how a service runs since it started; of all processes that share a directory."""
        buckets: dict[float, float] = {}
        statuses: Counter[str] = Counter()
        for family in self._open_source().collect():
            for sample in family.samples:
                if sample.name == "demur_decision_seconds_bucket":
                    buckets[float(sample.labels["le"])] = sample.value
                elif sample.name == "demur_http_requests_total":
                    statuses[sample.labels["status"][:1]] += int(sample.value)
        return ServiceFigures(
            decisions=int(max(buckets.values(), default=0)),
            p50_s=find_bucket_quantile(buckets, 0.5),
            p95_s=find_bucket_quantile(buckets, 0.95),
            calls=statuses.total(),
            client_errors=statuses["4"],
            server_errors=statuses["5"],
        )

    # -- what is served --------------------------------------------------------------------

    @property
    def content_type(self) -> str:
        """The media type of the rendered metrics."""
        return _CONTENT_TYPE

    def render_metrics(self) -> bytes:
        """Return all metrics as text; of all processes, if they share a directory."""
        return bytes(self._prometheus.exposition.generate_latest(self._open_source()))

    def _open_source(self) -> Any:
        """Return the registry to read: the own one, or that of all processes."""
        folder = os.environ.get(_MULTIPROCESS_VARIABLE)
        if not folder:
            return self.collector
        client, source = self._prometheus, self._prometheus.CollectorRegistry()
        module = require_module("prometheus_client.multiprocess", "metrics")
        module.MultiProcessCollector(source)
        source.register(_WorkerProcesses(client, Path(folder)))
        return source
