"""OpenTelemetry: spans around decisions and guards, and an event for each refusal.

A refusal is not an error: its span keeps its status. A span gets `error.type` only if a decision
could not be judged. Attributes are demur's own, `refusal.*`, because the conventions for
guardrails still change; `mirror` repeats refusals under the proposed names.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.observe.labels import OTHER, MetricLabels, iter_refusals, require_module
from demur.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span, TracerProvider


DECISION_EVENT = "refusal.decision"
_MIRROR_EVENT = "gen_ai.guardrail.result"
_MAX_NATIVE_LENGTH = 80


class Tracing:
    """Makes spans and events. Safe to share between threads and tasks.

    The default `provider` is the global one. `mirror` repeats each refusal under the names
    proposed for `gen_ai.guardrail.*`, which are experimental and may change.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        provider: "TracerProvider | None" = None,
        *,
        mirror: bool = False,
    ) -> None:
        self._trace = require_module("opentelemetry.trace", "traces")
        self._tracer = self._trace.get_tracer("demur", __version__, provider)
        self._labels = MetricLabels(default_registry() if registry is None else registry)
        self._mirror = mirror

    # -- decisions -------------------------------------------------------------------------

    def record_decision(self, record: DecisionRecord) -> None:
        """Record a decision on the current span, or on a new one. This is a gate's sink."""
        span = self._trace.get_current_span()
        if span.is_recording():
            self._annotate_span(span, record)
            return
        own = self._tracer.start_span("demur.decide")
        try:
            self._annotate_span(own, record)
        finally:
            own.end()

    @contextmanager
    def trace_decision(self, **attributes: str) -> "Iterator[Span]":
        """Return a span around a decision, on which the gate's sink records it."""
        with self._tracer.start_as_current_span("demur.decide", attributes=attributes) as span:
            yield span

    def _annotate_span(self, span: "Span", record: DecisionRecord) -> None:
        if not span.is_recording():
            return
        about = {
            "refusal.decision_id": record.decision_id,
            "refusal.registry": self._labels.registry.label,
            "refusal.policy.id": record.policy.policy_id,
            "refusal.policy.revision": record.policy.policy_version,
        }
        refusals = list(iter_refusals(record, self._labels))
        span.set_attributes(
            {
                **about,
                "refusal.verdict": self._labels.verdict_label(record.verdict),
                "refusal.output": self._labels.output_label(record.decision_output),
                "refusal.codes": [refusal.code for refusal in refusals],
                "refusal.enforced": record.enforced,
            }
        )
        for refusal in refusals:
            self._add_event(span, refusal, about)

    # -- guards and providers ----------------------------------------------------------------

    @contextmanager
    def trace_guards(self, surface: Surface | str) -> "Iterator[Span]":
        """Return a span around guards; pass their findings to `record_findings`."""
        name = self._labels.surface_label(surface)
        about = {"refusal.point": name}
        with self._tracer.start_as_current_span(f"demur.guard {name}", attributes=about) as span:
            yield span

    def record_findings(self, findings: list[Finding]) -> None:
        """Record findings of guards on the current span, without the text that they quote."""
        span = self._trace.get_current_span()
        for finding in findings:
            entry = self._labels.registry.get(finding.code)
            attributes = {
                "refusal.code": self._labels.code_label(finding.code),
                "refusal.point": self._labels.surface_label(finding.surface),
                "refusal.action": self._labels.action_label(finding.action),
            }
            span.add_event("refusal.finding", attributes)
            if entry is not None and not entry.decided:
                self._mark_error(span, entry.code)

    def record_refusal(self, refusal: Refusal) -> None:
        """Record a refusal by a model or a provider on the current span."""
        about = {"refusal.registry": refusal.registry}
        self._add_event(self._trace.get_current_span(), refusal, about)

    # -- events ------------------------------------------------------------------------------

    def _add_event(self, span: "Span", refusal: Refusal, about: dict[str, Any]) -> None:
        attributes = {**about, **_refusal_attributes(refusal, self._labels)}
        span.add_event(DECISION_EVENT, attributes)
        if self._mirror:
            span.add_event(_MIRROR_EVENT, _mirror_attributes(attributes))
        # INVARIANT: only what nobody could judge is an error.
        if not refusal.decided:
            self._mark_error(span, attributes["refusal.code"])

    def _mark_error(self, span: "Span", code: str) -> None:
        span.set_attribute("error.type", "_OTHER" if code == OTHER else code)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, code))


def _refusal_attributes(refusal: Refusal, labels: MetricLabels) -> dict[str, Any]:
    source = refusal.source
    attributes = {
        "refusal.code": labels.code_label(refusal.code),
        "refusal.class": refusal.refusal_class and str(refusal.refusal_class),
        "refusal.advice": refusal.advice and str(refusal.advice),
        "refusal.point": refusal.surface and str(refusal.surface),
        "refusal.decided": refusal.decided,
        "refusal.source.provider": source and source.name,
        "refusal.source.native": None if source is None else _short_native(source.native),
    }
    return {key: value for key, value in attributes.items() if value is not None}


def _short_native(native: Any) -> str | None:
    """Return a native signal if it is short; a longer one may quote a user."""
    words = str(native) if isinstance(native, str | int | float) else ""
    return words if 0 < len(words) <= _MAX_NATIVE_LENGTH and words.isprintable() else None


def _mirror_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return an event under the proposed names; the proposal requires native values."""
    names = {
        "refusal.source.provider": "component.name",
        "refusal.source.native": "result.value",
        "refusal.point": "source",
        "refusal.policy.id": "policy.id",
        "refusal.policy.revision": "policy.version",
    }
    own = {"component.name": "demur", "result.value": attributes["refusal.code"]}
    named = {new: attributes[old] for old, new in names.items() if old in attributes}
    return {f"gen_ai.guardrail.{name}": value for name, value in {**own, **named}.items()}
