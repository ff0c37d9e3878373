from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from support.gates import finding, opened, refund
from support.store_records import make_record

from demur.codes.registry import Registry
from demur.model.refusal import Refusal, RefusalSource
from demur.observe.otel import DECISION_EVENT, Tracing

CORE = Registry.load()


class Desk:
    def __init__(self, **more: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(CORE, self.provider, **more)

    @property
    def span(self) -> ReadableSpan:
        """The one span that ended."""
        [span] = self.exporter.get_finished_spans()
        return span


def attributes(thing: Any) -> dict[str, Any]:
    return dict(thing.attributes or {})


def test_a_refusal_that_worked_is_an_event_and_no_error() -> None:
    desk = Desk()
    with (
        opened(sinks=(desk.tracing.record_decision,)) as gate,
        desk.tracing.trace_decision(action="refund"),
    ):
        record = gate.decide(refund(), findings=[finding("RCE_RISK")])

    span = desk.span
    [event] = span.events
    assert span.name == "demur.decide"
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in attributes(span)
    assert attributes(span)["refusal.verdict"] == "DENY"
    assert attributes(span)["refusal.codes"] == ("RCE_RISK",)
    assert attributes(span)["action"] == "refund"
    assert event.name == DECISION_EVENT
    assert attributes(event) == {
        "refusal.code": "RCE_RISK",
        "refusal.class": "HARD_BLOCK",
        "refusal.advice": "do_not_retry",
        "refusal.point": "input",
        "refusal.decided": True,
        "refusal.registry": CORE.label,
        "refusal.decision_id": record.decision_id,
        "refusal.policy.id": "support",
        "refusal.policy.revision": "1.0.0",
    }


def test_an_allowed_decision_has_a_span_and_no_event() -> None:
    desk = Desk()
    with opened(sinks=(desk.tracing.record_decision,)) as gate:
        gate.decide(refund())

    assert desk.span.events == ()
    assert attributes(desk.span)["refusal.output"] == "ALLOW_EXECUTE"


def test_a_refusal_by_the_runtime_is_a_span_error() -> None:
    desk = Desk()
    desk.tracing.record_decision(
        make_record(reason_codes=("STORAGE_UNAVAILABLE",), basis="runtime")
    )

    assert desk.span.status.status_code is StatusCode.ERROR
    assert attributes(desk.span)["error.type"] == "STORAGE_UNAVAILABLE"


def test_guards_have_a_span_with_what_they_found_and_nothing_they_quote() -> None:
    desk = Desk()
    with desk.tracing.trace_guards("input"):
        desk.tracing.record_findings(
            [finding("SECRET_LEAK", detail="hunter2"), finding("nobody's")]
        )

    span = desk.span
    assert span.name == "demur.guard input"
    assert [attributes(event)["refusal.code"] for event in span.events] == ["SECRET_LEAK", "_other"]
    assert span.status.status_code is StatusCode.UNSET
    assert "hunter2" not in span.to_json()


def test_a_guard_that_gave_no_verdict_is_an_error() -> None:
    desk = Desk()
    with desk.tracing.trace_guards("moon"):
        desk.tracing.record_findings([finding("GUARDRAIL_UNAVAILABLE")])

    assert desk.span.name == "demur.guard _other"
    assert attributes(desk.span)["error.type"] == "GUARDRAIL_UNAVAILABLE"


@pytest.mark.parametrize(
    ("native", "shown"),
    [("content_filter", "content_filter"), (7, "7"), ("", None), ("a\nb", None), ({"a": 1}, None)],
)
def test_a_provider_is_named_with_its_own_word(native: Any, shown: str | None) -> None:
    desk = Desk()
    source = RefusalSource(name="openai", native=native)
    with desk.tracing.trace_guards("model"):
        desk.tracing.record_refusal(
            Refusal.from_code("CONTENT_CYBER", source=source, registry=CORE)
        )

    [event] = desk.span.events
    assert attributes(event)["refusal.source.provider"] == "openai"
    assert attributes(event).get("refusal.source.native") == shown


def test_a_foreign_code_that_nobody_judged_is_an_error_of_some_other_kind() -> None:
    desk = Desk()
    known = Refusal.from_code("INTERNAL_ERROR", registry=CORE)
    fields = {name: getattr(known, name) for name in Refusal.__struct_fields__ if name != "line"}
    foreign = Refusal(**{**fields, "code": "other.org/BROKEN"})
    with desk.tracing.trace_guards("model"):
        desk.tracing.record_refusal(foreign)

    assert attributes(desk.span)["error.type"] == "_OTHER"


def test_the_mirror_is_off_unless_it_is_wanted_and_translates_nothing() -> None:
    desk = Desk(mirror=True)
    source = RefusalSource(name="bedrock", native="guardrail_intervened")
    with desk.tracing.trace_guards("model"):
        desk.tracing.record_refusal(
            Refusal.from_code("CONTENT_CYBER", source=source, registry=CORE)
        )
    desk.tracing.record_decision(make_record())

    first, second = desk.exporter.get_finished_spans()
    assert [event.name for event in first.events] == [DECISION_EVENT, "gen_ai.guardrail.result"]
    assert attributes(first.events[1]) == {
        "gen_ai.guardrail.component.name": "bedrock",
        "gen_ai.guardrail.result.value": "guardrail_intervened",
    }
    assert attributes(second.events[1]) == {
        "gen_ai.guardrail.component.name": "demur",
        "gen_ai.guardrail.result.value": "REFUND_OVER_ESCALATION_LIMIT",
        "gen_ai.guardrail.source": "policy",
        "gen_ai.guardrail.policy.id": "support",
        "gen_ai.guardrail.policy.version": "1.0.0",
    }


def test_without_a_provider_nothing_happens() -> None:
    Tracing().record_decision(make_record())
