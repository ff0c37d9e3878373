"""Checks as generators: they yield what they need, findings of guards or a decision.

So each check is written once; a driver supplies what it yields, synchronously or awaited.
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
    """Request for the findings of the guards of a surface."""

    surface: Surface
    event: Any


class Decide(NamedTuple):
    """Request for the gate's decision."""

    request: Mapping[str, Any]
    findings: Iterable[Finding] = ()
    grants: Iterable[Grant] = ()
    accepted: Iterable[str] = ()
    tenant: str | None = None


Steps = Generator[Look | Decide, Any, _Result]


class Means(Protocol):
    """Supplies the guards and the gate for the steps of a check."""

    @property
    def pipeline(self) -> Pipeline:
        """The guards."""

    @property
    def monitor(self) -> Monitor | None:
        """The monitor of the guards."""

    @property
    def gate(self) -> Gate | None:
        """The gate; without one, no step may ask for a decision."""


def take(steps: Steps[_Result], means: Means) -> _Result:
    """Run the steps and return their result."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
        if isinstance(needed, Look):
            answer = means.pipeline.run(*needed, monitor=means.monitor)
        else:
            assert means.gate is not None
            answer = means.gate.decide(needed.request, **_beside(needed))


async def atake(steps: Steps[_Result], means: Means) -> _Result:
    """Run the steps and return their result, without blocking the event loop."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
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
