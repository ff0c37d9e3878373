"""Steps that ask for what they need: a look of guards, or a decision.

An order of steps is written once, as a generator; whether what it asks for is waited for or
awaited is up to who takes them.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from demur.codes.vocabulary import Surface
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.model.finding import Finding
from demur.model.grant import Grant

__all__ = ["Decide", "Look", "Means", "Steps", "atake", "take"]

_Result = TypeVar("_Result")


class Look(NamedTuple):
    """Needed: what the guards of a surface see."""

    surface: Surface
    event: Any


class Decide(NamedTuple):
    """Needed: the gate's decision."""

    request: Mapping[str, Any]
    findings: Iterable[Finding] = ()
    grants: Iterable[Grant] = ()
    accepted: Iterable[str] = ()
    tenant: str | None = None


Steps = Generator[Look | Decide, Any, _Result]


class Means(Protocol):
    """By what steps are taken."""

    @property
    def pipeline(self) -> Pipeline:
        """The guards."""

    @property
    def monitor(self) -> Monitor | None:
        """Who watches them."""

    @property
    def gate(self) -> Gate | None:
        """Who decides; without one, no step may ask for a decision."""


def take(steps: Steps[_Result], means: Means) -> _Result:
    """Return what the steps come to."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what a generator returns
        if isinstance(needed, Look):
            answer = means.pipeline.run(*needed, monitor=means.monitor)
        else:
            assert means.gate is not None
            answer = means.gate.decide(needed.request, **_beside(needed))


async def atake(steps: Steps[_Result], means: Means) -> _Result:
    """Return what the steps come to; the event loop runs on meanwhile."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what a generator returns
        if isinstance(needed, Look):
            answer = await means.pipeline.arun(*needed, monitor=means.monitor)
        else:
            assert means.gate is not None
            answer = await means.gate.adecide(needed.request, **_beside(needed))


def _beside(needed: Decide) -> dict[str, Any]:
    return {
        "findings": needed.findings,
        "grants": needed.grants,
        "accepted": needed.accepted,
        "tenant": needed.tenant,
    }
