"""The assessments of a Bedrock guardrail: which check blocked, masked or only looked.

What matched is personal data or worse, so it is never kept; its kind is.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.providers.mapping import Judged, System
from demur.providers.node import Node
from demur.providers.signal import Outcome, Signal

__all__ = ["assessed", "is_known"]

_HIDDEN = {"match"}
_POLICIES = {
    "contentpolicy": {"filters"},
    "topicpolicy": {"topics"},
    "wordpolicy": {"customwords", "managedwordlists"},
    "sensitiveinformationpolicy": {"piientities", "regexes"},
    "contextualgroundingpolicy": {"filters"},
    "automatedreasoningpolicy": {"findings"},
}
_NO_POLICIES = {"invocationmetrics", "appliedguardraildetails"}


class _Check(NamedTuple):
    """One check of an assessment: its meaning, its result and its kind."""

    judged: Judged
    result: Node
    kind: str | None


def assessed(
    traces: Iterable[tuple[str, Node]], known: System, *, intervened: bool
) -> Iterator[Signal]:
    """Yield a signal for each check that acted or detected something.

    If the guardrail `intervened`, the finding of a formal check counts as its reason.
    """
    for side, assessment in traces:
        for check in _checks(assessment, known):
            yield _acted(check, side, known)
        yield from _reasoned(assessment["automatedReasoningPolicy"], known, side, intervened)
        for kind in ("textCharacters", "images"):
            yield from _covered(assessment["invocationMetrics"]["guardrailCoverage"][kind], known)


def is_known(assessment: Node) -> bool:
    """Return whether every check in the assessment is of a known kind.

    An unknown one may have blocked, whatever the others did.
    """
    for name, policy in assessment.fields():
        checks = _POLICIES.get(_squashed(name))
        if checks is None and _squashed(name) not in _NO_POLICIES:
            return False
        if checks is not None and {_squashed(kind) for kind, _ in policy.fields()} - checks:
            return False
    return True


def _squashed(name: str) -> str:
    return name.replace("_", "").lower()


def _checks(assessment: Node, known: System) -> Iterator[_Check]:
    for result in assessment["contentPolicy"]["filters"]:
        kind = result["type"].text
        yield _Check(known.judge("content_filter", kind), result, kind)
    for result in assessment["topicPolicy"]["topics"]:
        name = result["name"].text
        yield _Check(known.judge("topic", result["type"].text or "DENY"), result, name)
    words = assessment["wordPolicy"]
    for result in words["customWords"]:
        yield _Check(known.judge("word_list", "customWords"), result, None)
    for result in words["managedWordLists"]:
        kind = result["type"].text
        yield _Check(known.judge("word_list", kind or "PROFANITY"), result, kind)
    for name in ("piiEntities", "regexes"):
        for result in assessment["sensitiveInformationPolicy"][name]:
            kind = result["type"].text or result["name"].text
            exact = known.judge("sensitive", kind)
            judged = exact if exact.known else known.judge("sensitive", name)
            yield _Check(judged, result, kind)
    for result in assessment["contextualGroundingPolicy"]["filters"]:
        kind = result["type"].text
        yield _Check(known.judge("grounding", kind), result, kind)


def _acted(check: _Check, side: str, known: System) -> Signal:
    action = check.result["action"].text
    outcome = known.judge("filter_action", action or "NONE").outcome
    evidence = {
        "category": check.kind,
        "action": action,
        "confidence": check.result["confidence"].text,
        "score": check.result["score"].number,
        "threshold": check.result["threshold"].number,
        "stage": side,
    }
    native = {name: part.raw for name, part in check.result.fields() if name not in _HIDDEN}
    return check.judged.signal(
        check.result,
        outcome=outcome,
        native=native,
        surface=side or None,
        evidence={key: value for key, value in evidence.items() if value not in {None, ""}},
    )


def _reasoned(policy: Node, known: System, side: str, intervened: bool) -> Iterator[Signal]:  # noqa: FBT001 - passed on unchanged
    for finding in policy["findings"]:
        for kind, inner in finding.fields():
            judged = known.judge("reasoning", kind)
            if intervened and judged.outcome is Outcome.DETECT_ONLY:
                judged = judged._replace(outcome=Outcome.REFUSAL)
            evidence = {"category": kind, "stage": side}
            yield judged.signal(inner, surface=side or None, evidence=evidence)


def _covered(coverage: Node, known: System) -> Iterator[Signal]:
    guarded, total = coverage["guarded"].number, coverage["total"].number
    if guarded is not None and total is not None and guarded < total:
        judged = known.judge("coverage", "partial")
        yield judged.signal(coverage, evidence={"guarded": guarded, "total": total})
