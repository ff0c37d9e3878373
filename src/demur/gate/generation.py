"""The order of a guarded call: input, rate, decision, model, output, decision.

It stands here once, as steps that ask for what is needed; whether that is waited for or
awaited is up to who takes them.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.gate.generated import Generated
from demur.gate.session import Session, Stage
from demur.guards.output.guard import OutputText

__all__ = ["Decide", "Look", "Steps", "after", "atake", "before", "take"]


class Look(NamedTuple):
    """Needed: what the guards of a surface see."""

    surface: Surface
    event: Any


class Decide(NamedTuple):
    """Needed: the gate's decision at a stage."""

    stage: Stage


Steps = Generator[Look | Decide, Any, Generated | None]


def before(session: Session) -> Steps:
    """Return what to say without asking the model, or None if it may be asked."""
    session.found((yield Look(Surface.INPUT, session.event)))
    # A prompt that is refused counts, too: whoever tries many of them is slowed down.
    session.found((yield Look(Surface.RATE, session.ask)))
    if session.gate is not None:
        session.decided((yield Decide("input")))
    return session.refused() if session.blocked else None


def after(session: Session, text: str) -> Steps:
    """Return the model's answer, or what to say instead."""
    found = session.found((yield Look(Surface.OUTPUT, OutputText(text, session.prompt))))
    if session.gate is not None and found:
        session.decided((yield Decide("output")))
    return session.refused() if session.blocked else session.answered(text)


def take(steps: Steps, session: Session) -> Generated | None:
    """Return what the steps come to."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what a generator returns
        if isinstance(needed, Look):
            answer = session.pipeline.run(*needed, monitor=session.monitor)
        else:
            assert session.gate is not None
            answer = session.gate.decide(
                session.request(needed.stage), findings=session.findings, tenant=session.tenant
            )


async def atake(steps: Steps, session: Session) -> Generated | None:
    """Return what the steps come to; the event loop runs on meanwhile."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what a generator returns
        if isinstance(needed, Look):
            answer = await session.pipeline.arun(*needed, monitor=session.monitor)
        else:
            assert session.gate is not None
            answer = await session.gate.adecide(
                session.request(needed.stage), findings=session.findings, tenant=session.tenant
            )
