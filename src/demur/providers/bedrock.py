"""Amazon Bedrock: Converse, InvokeModel, ApplyGuardrail, checks, Agents and AgentCore.

`guardrail_intervened` is not yet a refusal: the assessments say whether something was
blocked or only masked. Where no trace came along, nobody can tell, and it counts as blocked.
"""

from collections.abc import Iterator

from demur.providers.bedrock_guardrail import read_assessments, is_known_assessment
from demur.providers.mapping import ProviderSystem, load_system
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signal import SignalOutcome, Signal, strongest_signal

__all__ = ["NAME", "read"]

NAME = "bedrock"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, a guardrail's answer or a trace."""
    known = load_system(NAME)
    body = shape.body
    traces = _find_assessments(body)
    # All count: a model's own stop reason may come with a guardrail's action.
    return strongest_signal(
        [
            *(_read_stop(stop, traces, known) for stop in _find_stop_words(body)),
            *_read_coverage(body["guardrailCoverage"], known),
            *_read_attacks(body["results"]["promptAttack"], known),
            _read_hook(body, known),
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


def _read_stop(stop: Node, traces: list[tuple[str, Node]], known: ProviderSystem) -> Signal | None:
    word = stop.text or ""
    field = "stop_reason" if stop.path.lower().endswith("reason") else "guardrail_action"
    judged = known.interpret(field, word)
    if judged.outcome is not SignalOutcome.REFUSAL:
        return strongest_signal(
            [judged.to_signal(stop), *read_assessments(traces, known, intervened=False)]
        )
    if "intervened" not in word.casefold() or not traces:
        return judged.to_signal(stop, evidence={"native_reason": word})
    found = list(read_assessments(traces, known, intervened=True))
    if any(signal.outcome is SignalOutcome.REFUSAL for signal in found):
        return strongest_signal(found)
    masked = any(signal.evidence.get("action") == "ANONYMIZED" for signal in found)
    masked = masked and all(is_known_assessment(assessment) for _, assessment in traces)
    # Only masked: the answer was given, with parts replaced.
    return (
        strongest_signal(found)
        if masked
        else judged.to_signal(stop, evidence={"native_reason": word})
    )


def _read_coverage(coverage: Node, known: ProviderSystem) -> Iterator[Signal]:
    for kind in ("textCharacters", "images"):
        guarded, total = coverage[kind]["guarded"].number, coverage[kind]["total"].number
        if guarded is not None and total is not None:
            judged = known.interpret("coverage", "partial" if guarded < total else "full")
            yield judged.to_signal(coverage[kind], evidence={"guarded": guarded, "total": total})


def _read_attacks(checked: Node, known: ProviderSystem) -> Iterator[Signal]:
    for result in checked["results"]:
        category = result["category"]
        evidence = {"category": category.text, "score": result["severityScore"].number}
        yield known.interpret("prompt_attack", category.text).to_signal(category, evidence=evidence)


def _read_hook(body: Node, known: ProviderSystem) -> Signal | None:
    """Return the decision of an AgentCore hook, unless its engine only logs denials."""
    decision = body["hookResult"]["decision"]
    decision = decision if decision.present else body["decision"]
    engine = body["policyEngineMode"]
    logged = known.interpret("engine_mode", engine.text).outcome is SignalOutcome.DETECT_ONLY
    ours = body["hookResult"].present or body["hookEventType"].present or engine.present
    if decision.text is None or not ours:
        return None
    judged = known.interpret("hook_decision", decision.text)
    words = body["reason"].text or body["hookResult"]["reason"].text
    outcome = SignalOutcome.DETECT_ONLY if logged else judged.outcome
    return judged.to_signal(decision, outcome=outcome, detail=words or "")
