"""The order of a guarded call: input, rate, decision, model, output, decision."""

from demur.codes.vocabulary import Surface
from demur.enforce.generated import GuardedAnswer
from demur.enforce.session import GenerationSession
from demur.enforce.steps import RunGate, RunGuards, Steps
from demur.guards.output.guard import OutputText

__all__ = ["output_steps", "input_steps"]


def input_steps(session: GenerationSession) -> Steps[GuardedAnswer | None]:
    """Return the answer to give without calling the model, or None if it may be called."""
    session.add_findings((yield RunGuards(Surface.INPUT, session.event)))
    # Count refused prompts too, to slow down repeated attempts.
    session.add_findings((yield RunGuards(Surface.RATE, session.rate_request)))
    if session.gate is not None:
        asked = session.build_request("input")
        session.set_record((yield RunGate(asked, session.findings, tenant=session.tenant)))
    return None if session.result.allowed else session.finish_answer("")


def output_steps(session: GenerationSession, text: str) -> Steps[GuardedAnswer]:
    """Return the model's answer, or the text to show instead."""
    found = session.add_findings(
        (yield RunGuards(Surface.OUTPUT, OutputText(text, session.prompt)))
    )
    if session.gate is not None and found:
        asked = session.build_request("output")
        session.set_record((yield RunGate(asked, session.findings, tenant=session.tenant)))
    return session.finish_answer(text)
