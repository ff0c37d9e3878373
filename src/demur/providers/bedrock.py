"""Amazon Bedrock: Converse, InvokeModel, ApplyGuardrail, checks, Agents and AgentCore.

`guardrail_intervened` is not yet a refusal: the assessments say whether something was
blocked or only masked. Where no trace came along, nobody can tell, and it counts as blocked.
"""

from collections.abc import Iterator

from demur.providers.bedrock_guardrail import assessed, is_known
from demur.providers.mapping import System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "bedrock"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a response, a guardrail's answer or a trace."""
    known = system(NAME)
    body = shape.body
    traces = _traces(body)
    # All count: a model's own stop reason may come with a guardrail's action.
    return strongest(
        [
            *(_stopped(stop, traces, known) for stop in _stops(body)),
            *_coverage(body["guardrailCoverage"], known),
            *_attacks(body["results"]["promptAttack"], known),
            _hook(body, known),
        ]
    )


def _stops(body: Node) -> list[Node]:
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


def _traces(body: Node) -> list[tuple[str, Node]]:
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


def _stopped(stop: Node, traces: list[tuple[str, Node]], known: System) -> Signal | None:
    word = stop.text or ""
    field = "stop_reason" if stop.path.lower().endswith("reason") else "guardrail_action"
    judged = known.judge(field, word)
    if judged.outcome is not Outcome.REFUSAL:
        return strongest([judged.signal(stop), *assessed(traces, known, intervened=False)])
    if "intervened" not in word.casefold() or not traces:
        return judged.signal(stop, evidence={"native_reason": word})
    found = list(assessed(traces, known, intervened=True))
    if any(signal.outcome is Outcome.REFUSAL for signal in found):
        return strongest(found)
    masked = any(signal.evidence.get("action") == "ANONYMIZED" for signal in found)
    masked = masked and all(is_known(assessment) for _, assessment in traces)
    # Only masked: the answer was given, with parts replaced.
    return strongest(found) if masked else judged.signal(stop, evidence={"native_reason": word})


def _coverage(coverage: Node, known: System) -> Iterator[Signal]:
    for kind in ("textCharacters", "images"):
        guarded, total = coverage[kind]["guarded"].number, coverage[kind]["total"].number
        if guarded is not None and total is not None:
            judged = known.judge("coverage", "partial" if guarded < total else "full")
            yield judged.signal(coverage[kind], evidence={"guarded": guarded, "total": total})


def _attacks(checked: Node, known: System) -> Iterator[Signal]:
    for result in checked["results"]:
        category = result["category"]
        evidence = {"category": category.text, "score": result["severityScore"].number}
        yield known.judge("prompt_attack", category.text).signal(category, evidence=evidence)


def _hook(body: Node, known: System) -> Signal | None:
    """Return the decision of an AgentCore hook, unless its engine only logs denials."""
    decision = body["hookResult"]["decision"]
    decision = decision if decision.present else body["decision"]
    engine = body["policyEngineMode"]
    logged = known.judge("engine_mode", engine.text).outcome is Outcome.DETECT_ONLY
    ours = body["hookResult"].present or body["hookEventType"].present or engine.present
    if decision.text is None or not ours:
        return None
    judged = known.judge("hook_decision", decision.text)
    words = body["reason"].text or body["hookResult"]["reason"].text
    outcome = Outcome.DETECT_ONLY if logged else judged.outcome
    return judged.signal(decision, outcome=outcome, detail=words or "")
