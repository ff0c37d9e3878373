"""Amazon Bedrock: Converse, InvokeModel, ApplyGuardrail, checks, Agents and AgentCore.

`guardrail_intervened` alone is not a refusal: the assessments say whether a check blocked or
only masked. Without a trace it counts as blocked. Matched text may be personal data, so
readers keep its kind and never the text.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, SignalOutcome, interpret, max_signal

_SYSTEM = "bedrock"


def read_bedrock(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, a guardrail's answer or a trace."""
    body = shape.body
    traces = _find_assessments(body)
    # All count: a model's own stop reason may come with a guardrail's action.
    return max_signal(
        [
            *(_read_stop(stop, traces) for stop in _find_stop_words(body)),
            *_read_coverage(body["guardrailCoverage"]),
            *_read_attacks(body["results"]["promptAttack"]),
            _read_hook(body),
        ]
    )


def _find_stop_words(body: Node) -> list[Node]:
    """Return the stop reasons of the answer: each API has its own, some have two."""
    trace = body["trace"]["trace"] if body["trace"]["trace"].present else body["trace"]
    places = (
        body["stopReason"],
        body["messageStop"]["stopReason"],
        body["amazon-bedrock-guardrailAction"],
        body["guardrailAction"],
        trace["guardrailTrace"]["action"],
        body["guardrailTrace"]["action"],
        body["action"] if body["assessments"].present or body["outputs"].present else Node(None),
    )
    return [place for place in places if place.text]


def _find_assessments(body: Node) -> list[tuple[str, Node]]:
    """Return every assessment with its side, those of the input first."""
    metadata = body["metadata"]["trace"]["guardrail"]
    invoked = body["amazon-bedrock-trace"]["guardrail"]
    guardrails = [body["trace"]["guardrail"], metadata, invoked]
    nested = body["trace"]["trace"]["guardrailTrace"]
    agents = [nested, body["trace"]["guardrailTrace"], body["guardrailTrace"]]
    found: list[tuple[str, Node]] = []
    for guardrail in guardrails:
        for name in ("inputAssessment", "input"):
            found += [("input", one) for _, one in guardrail[name].fields()]
        for _, many in guardrail["outputAssessments"].fields():
            found += [("output", one) for one in many]
        for many in guardrail["outputs"]:
            found += [("output", one) for _, one in many.fields()]
    for trace in agents:
        found += [("input", one) for one in trace["inputAssessments"]]
        found += [("output", one) for one in trace["outputAssessments"]]
    return found + [("", one) for one in body["assessments"]]


def _read_stop(stop: Node, traces: list[tuple[str, Node]]) -> Signal | None:
    word = stop.text or ""
    field = "stop_reason" if stop.path.lower().endswith("reason") else "guardrail_action"
    judged = interpret(_SYSTEM, field, word)
    if judged.outcome is not SignalOutcome.REFUSAL:
        return max_signal([judged.to_signal(stop), *read_assessments(traces, intervened=False)])
    blocked = judged.to_signal(stop, evidence={"native_reason": word})
    if "intervened" not in word.casefold() or not traces:
        return blocked
    found = list(read_assessments(traces, intervened=True))
    if any(signal.outcome is SignalOutcome.REFUSAL for signal in found):
        return max_signal(found)
    masked = any(signal.evidence.get("action") == "ANONYMIZED" for signal in found)
    masked = masked and all(is_known_assessment(assessment) for _, assessment in traces)
    # Only masked: the answer was given, with parts replaced.
    return max_signal(found) if masked else blocked


def _read_coverage(coverage: Node) -> Iterator[Signal]:
    for kind in ("textCharacters", "images"):
        guarded, total = coverage[kind]["guarded"].number, coverage[kind]["total"].number
        if guarded is not None and total is not None:
            judged = interpret(_SYSTEM, "coverage", "partial" if guarded < total else "full")
            yield judged.to_signal(coverage[kind], evidence={"guarded": guarded, "total": total})


def _read_attacks(checked: Node) -> Iterator[Signal]:
    for result in checked["results"]:
        category = result["category"]
        evidence = {"category": category.text, "score": result["severityScore"].number}
        judged = interpret(_SYSTEM, "prompt_attack", category.text)
        yield judged.to_signal(category, evidence=evidence)


def _read_hook(body: Node) -> Signal | None:
    """Return the decision of an AgentCore hook, unless its engine only logs denials."""
    decision = body["hookResult"]["decision"]
    decision = decision if decision.present else body["decision"]
    engine = body["policyEngineMode"]
    logged = interpret(_SYSTEM, "engine_mode", engine.text).outcome is SignalOutcome.DETECT_ONLY
    ours = body["hookResult"].present or body["hookEventType"].present or engine.present
    if decision.text is None or not ours:
        return None
    judged = interpret(_SYSTEM, "hook_decision", decision.text)
    words = body["reason"].text or body["hookResult"]["reason"].text
    outcome = SignalOutcome.DETECT_ONLY if logged else judged.outcome
    return judged.to_signal(decision, outcome=outcome, detail=words or "")


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


def read_assessments(traces: Iterable[tuple[str, Node]], *, intervened: bool) -> Iterator[Signal]:
    """Yield a signal for each check that acted or detected something.

    If the guardrail `intervened`, the finding of a formal check counts as its reason.
    """
    for side, assessment in traces:
        for check in _find_checks(assessment):
            yield _check_signal(check, side)
        for finding in assessment["automatedReasoningPolicy"]["findings"]:
            for kind, inner in finding.fields():
                judged = interpret(_SYSTEM, "reasoning", kind)
                if intervened and judged.outcome is SignalOutcome.DETECT_ONLY:
                    judged = judged._replace(outcome=SignalOutcome.REFUSAL)
                evidence = {"category": kind, "stage": side}
                yield judged.to_signal(inner, surface=side or None, evidence=evidence)
        yield from _read_coverage(assessment["invocationMetrics"]["guardrailCoverage"])


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


def _find_checks(assessment: Node) -> Iterator[_GuardrailCheck]:
    for result in assessment["contentPolicy"]["filters"]:
        kind = result["type"].text
        yield _GuardrailCheck(interpret(_SYSTEM, "content_filter", kind), result, kind)
    for result in assessment["topicPolicy"]["topics"]:
        judged = interpret(_SYSTEM, "topic", result["type"].text or "DENY")
        yield _GuardrailCheck(judged, result, result["name"].text)
    words = assessment["wordPolicy"]
    for result in words["customWords"]:
        yield _GuardrailCheck(interpret(_SYSTEM, "word_list", "customWords"), result, None)
    for result in words["managedWordLists"]:
        kind = result["type"].text
        yield _GuardrailCheck(interpret(_SYSTEM, "word_list", kind or "PROFANITY"), result, kind)
    for name in ("piiEntities", "regexes"):
        for result in assessment["sensitiveInformationPolicy"][name]:
            kind = result["type"].text or result["name"].text
            exact = interpret(_SYSTEM, "sensitive", kind)
            judged = exact if exact.known else interpret(_SYSTEM, "sensitive", name)
            yield _GuardrailCheck(judged, result, kind)
    for result in assessment["contextualGroundingPolicy"]["filters"]:
        kind = result["type"].text
        yield _GuardrailCheck(interpret(_SYSTEM, "grounding", kind), result, kind)


def _check_signal(check: _GuardrailCheck, side: str) -> Signal:
    action = check.result["action"].text
    outcome = interpret(_SYSTEM, "filter_action", action or "NONE").outcome
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
