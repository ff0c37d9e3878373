"""The assessments of a Bedrock guardrail: which check blocked, masked or only looked.

What matched is personal data or worse, so it is never kept; its kind is.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.providers.mapping import Interpretation, ProviderSystem
from demur.providers.node import Node
from demur.providers.signal import SignalOutcome, Signal

__all__ = ["read_assessments", "is_known_assessment"]

_HIDDEN_FIELDS = {"match"}
_POLICIES = {
    "contentpolicy": {"filters"},
    "topicpolicy": {"topics"},
    "wordpolicy": {"customwords", "managedwordlists"},
    "sensitiveinformationpolicy": {"piientities", "regexes"},
    "contextualgroundingpolicy": {"filters"},
    "automatedreasoningpolicy": {"findings"},
}
_NO_POLICIES = {"invocationmetrics", "appliedguardraildetails"}


class _GuardrailCheck(NamedTuple):
    """One check of an assessment: its meaning, its result and its kind."""

    judged: Interpretation
    result: Node
    kind: str | None


def read_assessments(
    traces: Iterable[tuple[str, Node]], known: ProviderSystem, *, intervened: bool
) -> Iterator[Signal]:
    """Yield a signal for each check that acted or detected something.

    If the guardrail `intervened`, the finding of a formal check counts as its reason.
    """
    for side, assessment in traces:
        for check in _find_checks(assessment, known):
            yield _check_signal(check, side, known)
        yield from _read_reasoning(assessment["automatedReasoningPolicy"], known, side, intervened)
        for kind in ("textCharacters", "images"):
            yield from _read_partial_coverage(
                assessment["invocationMetrics"]["guardrailCoverage"][kind], known
            )


def is_known_assessment(assessment: Node) -> bool:
    """Return whether every check in the assessment is of a known kind.

    An unknown one may have blocked, whatever the others did.
    """
    for name, policy in assessment.fields():
        checks = _POLICIES.get(_fold_name(name))
        if checks is None and _fold_name(name) not in _NO_POLICIES:
            return False
        if checks is not None and {_fold_name(kind) for kind, _ in policy.fields()} - checks:
            return False
    return True


def _fold_name(name: str) -> str:
    return name.replace("_", "").lower()


def _find_checks(assessment: Node, known: ProviderSystem) -> Iterator[_GuardrailCheck]:
    for result in assessment["contentPolicy"]["filters"]:
        kind = result["type"].text
        yield _GuardrailCheck(known.interpret("content_filter", kind), result, kind)
    for result in assessment["topicPolicy"]["topics"]:
        name = result["name"].text
        yield _GuardrailCheck(known.interpret("topic", result["type"].text or "DENY"), result, name)
    words = assessment["wordPolicy"]
    for result in words["customWords"]:
        yield _GuardrailCheck(known.interpret("word_list", "customWords"), result, None)
    for result in words["managedWordLists"]:
        kind = result["type"].text
        yield _GuardrailCheck(known.interpret("word_list", kind or "PROFANITY"), result, kind)
    for name in ("piiEntities", "regexes"):
        for result in assessment["sensitiveInformationPolicy"][name]:
            kind = result["type"].text or result["name"].text
            exact = known.interpret("sensitive", kind)
            judged = exact if exact.known else known.interpret("sensitive", name)
            yield _GuardrailCheck(judged, result, kind)
    for result in assessment["contextualGroundingPolicy"]["filters"]:
        kind = result["type"].text
        yield _GuardrailCheck(known.interpret("grounding", kind), result, kind)


def _check_signal(check: _GuardrailCheck, side: str, known: ProviderSystem) -> Signal:
    action = check.result["action"].text
    outcome = known.interpret("filter_action", action or "NONE").outcome
    evidence = {
        "category": check.kind,
        "action": action,
        "confidence": check.result["confidence"].text,
        "score": check.result["score"].number,
        "threshold": check.result["threshold"].number,
        "stage": side,
    }
    native = {name: part.raw for name, part in check.result.fields() if name not in _HIDDEN_FIELDS}
    return check.judged.to_signal(
        check.result,
        outcome=outcome,
        native=native,
        surface=side or None,
        evidence={key: value for key, value in evidence.items() if value not in {None, ""}},
    )


def _read_reasoning(
    policy: Node, known: ProviderSystem, side: str, intervened: bool
) -> Iterator[Signal]:  # noqa: FBT001 - passed on unchanged
    for finding in policy["findings"]:
        for kind, inner in finding.fields():
            judged = known.interpret("reasoning", kind)
            if intervened and judged.outcome is SignalOutcome.DETECT_ONLY:
                judged = judged._replace(outcome=SignalOutcome.REFUSAL)
            evidence = {"category": kind, "stage": side}
            yield judged.to_signal(inner, surface=side or None, evidence=evidence)


def _read_partial_coverage(coverage: Node, known: ProviderSystem) -> Iterator[Signal]:
    guarded, total = coverage["guarded"].number, coverage["total"].number
    if guarded is not None and total is not None and guarded < total:
        judged = known.interpret("coverage", "partial")
        yield judged.to_signal(coverage, evidence={"guarded": guarded, "total": total})
