"""Every template said out loud, so that words can be read over or held to checks."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    RefusalClass,
    RetryScope,
    Severity,
    Verdict,
)
from demur.model.decision import Decision
from demur.model.refusal import Refusal
from demur.respond.case import ComposeSource
from demur.respond.compose import compose
from demur.respond.graceful import GracefulRefusal
from demur.respond.loading import builtin_templates
from demur.respond.template import (
    CONSTRAINED,
    CRISIS,
    GENERAL,
    UNJUDGED,
    RefusalTemplate,
    Templates,
)

__all__ = ["TemplateSample", "render_samples"]

_WAY_ON = {
    RefusalClass.HARD_BLOCK: Advice.DO_NOT_RETRY,
    RefusalClass.WORKFLOW_BLOCK: Advice.REQUEST_APPROVAL,
    RefusalClass.SOFT_BLOCK: Advice.CHANGE_REQUEST,
}
_CLASS_OF: Mapping[str, RefusalClass] = {
    UNJUDGED: RefusalClass.WORKFLOW_BLOCK,
    **{template: refusal_class for refusal_class, template in GENERAL.items()},
}


class TemplateSample(NamedTuple):
    """A source, and the refusal composed from it."""

    source: ComposeSource
    refusal: GracefulRefusal


def render_samples(
    templates: Templates | None = None, registry: Registry | None = None
) -> Iterator[TemplateSample]:
    """Yield each template of each locale rendered, with nothing known but its code."""
    known = builtin_templates() if templates is None else templates
    codes = Registry.load() if registry is None else registry
    for locale, book in known.by_locale.items():
        for template in book.templates.values():
            for source in _sample_sources(template, codes):
                words = compose(source, locale=locale, templates=known, registry=codes)
                yield TemplateSample(source, words)


def _sample_sources(template: RefusalTemplate, registry: Registry) -> Iterator[ComposeSource]:
    if template.id in _CLASS_OF:
        yield _unknown_refusal(_CLASS_OF[template.id], decided=template.id != UNJUDGED)
    elif template.id == CONSTRAINED:
        yield _constrained_decision()
    elif template.id == CRISIS:
        yield Refusal.from_code("CRISIS_ESCALATION", registry=registry)
    for code in template.codes:
        if template.id != CRISIS:
            yield Refusal.from_code(code, registry=registry)


def _unknown_refusal(refusal_class: RefusalClass, *, decided: bool) -> Refusal:
    """Return a refusal with a code that has no template."""
    return Refusal(
        code="x-local/SAMPLE",  # demur: allow unregistered-code - that is the point
        refusal_class=refusal_class,
        advice=_WAY_ON[refusal_class] if decided else Advice.RETRY_LATER,
        retry_scope=RetryScope.CALL,
        severity=Severity.MEDIUM,
        decided=decided,
        registry="x-local",
    )


def _constrained_decision() -> Decision:
    return Decision(
        verdict=Verdict.ALLOW,
        reason_codes=("RISK_REDUCIBLE",),
        refusal_class=RefusalClass.SOFT_BLOCK,
        decision_output=DecisionOutput.ALLOW_CONSTRAINED,
        constraints=("dry_run",),
        reason="It is too risky in this form.",
        what_can_be_done_now="Proceed within the constraints.",
        how_to_proceed="Keep to them.",
        next_step=Advice.ACCEPT_CONSTRAINTS,
    )
