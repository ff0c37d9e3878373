"""Properties of monitoring, for any data."""

import io
import logging
import platform
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from support.store_records import make_record

from demur.codes.refusal_line import parse_refusal
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Severity, Surface, Verdict
from demur.gate.monitor import Activation
from demur.model.finding import Action
from demur.model.refusal import Refusal
from demur.observe.alerts.counts import DecisionCounts, RecordSource, StoreSource
from demur.observe.alerts.evaluate import AlertState, evaluate_rules
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    DecisionSelector,
    SelectorField,
    ShareWhole,
)
from demur.observe.labels import NONE, OTHER
from demur.observe.logs import RefusalHandler, log_refusal
from demur.observe.metrics import Metrics
from demur.observe.otel import Tracing
from demur.store.opening import open_store
from demur.version import ENGINE_VERSION, __version__

CORE = Registry.load()
CODES = [entry.code for entry in CORE]
NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)

ALLOWED = {
    "verdict": {*Verdict, OTHER},
    "output": {*DecisionOutput, OTHER},
    "class": {*RefusalClass, NONE, OTHER},
    "code": {*CODES, OTHER},
    "surface": {*Surface, OTHER},
    "action": {*Action, NONE, OTHER},
    "result": {"sent", "failed"},
    "version": {__version__},
    "engine": {ENGINE_VERSION},
    "python": {platform.python_version()},
}
ANYTHING = st.one_of(
    st.text(max_size=8),
    st.sampled_from([*CODES, *Verdict, *DecisionOutput, *RefusalClass, *Surface, *Action]),
)


@given(st.lists(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING), max_size=8))
def test_labels_are_bounded(rows: list[tuple[str, str, str, str]]) -> None:
    """INVARIANT: every label value comes from the registry or a closed vocabulary."""
    metrics = Metrics(CORE)
    for first, second, third, fourth in rows:
        record = make_record(reason_codes=(first, second))
        strange: dict[str, Any] = {"verdict": third, "decision_output": fourth}
        metrics.count_decision(msgspec.structs.replace(record, refusal_class=second, **strange))
        metrics.record(Activation(time=NOW, surface=first, guard=second, code=third, action=fourth))
        metrics.count_run(first, second, third)
        metrics.record_duration(fourth, first, 0.1)

    text = metrics.render_metrics().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for label, value in sample.labels.items():
                assert label == "le" or value in ALLOWED[label]


@given(st.sampled_from(CODES))
def test_errors_are_what_nobody_judged(code: str) -> None:
    """INVARIANT: only what nobody could judge is an error."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(CORE, provider)
    with tracing.trace_guards("model"):
        tracing.record_refusal(Refusal.from_code(code, registry=CORE))

    [span] = exporter.get_finished_spans()
    assert span.status.is_ok == CORE[code].decided
    assert ("error.type" in (span.attributes or {})) == (not CORE[code].decided)


NUMBERS = st.dictionaries(st.sampled_from(["RCE_RISK", "DENY", "NEW_ONE"]), st.integers(0, 99))
COUNTS = st.builds(
    DecisionCounts,
    decisions=st.none() | st.integers(0, 500),
    codes=NUMBERS,
    classes=st.none() | NUMBERS,
    verdicts=st.none() | NUMBERS,
    outputs=st.none() | NUMBERS,
)
RULES = st.builds(
    AlertRule,
    id=st.just("A1"),
    kind=st.sampled_from(AlertKind),
    severity=st.just(Severity.HIGH),
    window=st.just(timedelta(hours=1)),
    description=st.just("d"),
    threshold=st.floats(1.5, 90),
    selector=st.sampled_from(
        [
            DecisionSelector(SelectorField.CODE, "RCE_RISK"),
            DecisionSelector(SelectorField.VERDICT, "DENY"),
        ]
    ),
    whole=st.sampled_from(ShareWhole),
    before=st.just(timedelta(hours=1)),
    minimum=st.integers(1, 50),
    hold=st.just(timedelta()),
)


class _Pair:
    def __init__(self, now: DecisionCounts, before: DecisionCounts) -> None:
        self._now = now
        self._before = before

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:  # noqa: ARG002 - two stretches
        """Return one of the two."""
        return self._now if until == NOW else self._before


@given(RULES, COUNTS, COUNTS)
def test_incomplete_counts_never_quieten(
    rule: AlertRule, now: DecisionCounts, before: DecisionCounts
) -> None:
    """INVARIANT: counts that are not complete can make a rule fire, and never make it quiet."""
    whole = evaluate_rules([rule], _Pair(now, before), NOW, CORE)
    partial = evaluate_rules([rule], _Pair(now._replace(problem="gone"), before), NOW, CORE)

    assert partial[0].state is not AlertState.QUIET
    if rule.kind is AlertKind.COUNT and whole[0].state is AlertState.FIRING:
        assert partial[0].state is AlertState.FIRING


@given(st.text(), st.sampled_from(CODES))
def test_one_refusal_is_one_line(detail: str, code: str) -> None:
    stream = io.StringIO()
    logger = logging.Logger("test")  # noqa: LOG001 - one of its own for each example
    logger.addHandler(RefusalHandler(stream))
    refusal = Refusal.from_code(code, detail, registry=CORE)
    log_refusal(logger, refusal)

    [line] = stream.getvalue().splitlines()
    assert parse_refusal(line, registry=CORE) == (code, refusal.detail)


MINUTES = st.integers(0, 600)


@given(st.lists(MINUTES, max_size=12), MINUTES, MINUTES, MINUTES)
def test_a_store_counts_as_its_records_do(
    minutes: list[int], since: int, until: int, now: int
) -> None:
    def moment(minute: int) -> datetime:
        return datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)

    records = [make_record(n, created_at=_stamp(moment(m))) for n, m in enumerate(sorted(minutes))]
    # Nothing is stored after the moment of the check.
    kept = [one for one in records if one.created_at < _stamp(moment(now))]
    with open_store(":memory:") as store:
        for record in kept:
            store.put(record)
        counted = StoreSource(store, moment(now)).count_between(moment(since), moment(until))

    assert counted == RecordSource(kept).count_between(moment(since), moment(until))


def _stamp(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
