"""The order of a guarded call: input, rate, decision, model, output, decision."""

from demur.codes.vocabulary import Surface
from demur.enforce.generated import Generated
from demur.enforce.session import Session
from demur.enforce.steps import Decide, Look, Steps
from demur.guards.output.guard import OutputText

__all__ = ["after", "before"]


def before(session: Session) -> Steps[Generated | None]:
    """Return the answer to give without calling the model, or None if it may be called."""
    session.found((yield Look(Surface.INPUT, session.event)))
    # Count refused prompts too, to slow down repeated attempts.
    session.found((yield Look(Surface.RATE, session.ask)))
    if session.gate is not None:
        asked = session.request("input")
        session.decided((yield Decide(asked, session.findings, tenant=session.tenant)))
    return None if session.ruling.allowed else session.answered("")


def after(session: Session, text: str) -> Steps[Generated]:
    """Return the model's answer, or the text to show instead."""
    found = session.found((yield Look(Surface.OUTPUT, OutputText(text, session.prompt))))
    if session.gate is not None and found:
        asked = session.request("output")
        session.decided((yield Decide(asked, session.findings, tenant=session.tenant)))
    return session.answered(text)
