"""Checks as generators: they yield what they need, findings of guards or a decision.

So each check is written once; a driver supplies what it yields, synchronously or awaited.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from demur.codes.vocabulary import Surface
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.model.finding import Finding
from demur.model.grant import Grant

__all__ = ["RunGate", "RunGuards", "StepResources", "Steps", "adrive", "drive"]

_Result = TypeVar("_Result")


class RunGuards(NamedTuple):
    """Request for the findings of the guards of a surface."""

    surface: Surface
    event: Any


class RunGate(NamedTuple):
    """Request for the gate's decision."""

    request: Mapping[str, Any]
    findings: Iterable[Finding] = ()
    grants: Iterable[Grant] = ()
    accepted: Iterable[str] = ()
    tenant: str | None = None


Steps = Generator[RunGuards | RunGate, Any, _Result]


class StepResources(Protocol):
    """Supplies the guards and the gate for the steps of a check."""

    @property
    def pipeline(self) -> GuardPipeline:
        """The guards."""

    @property
    def monitor(self) -> Monitor | None:
        """The monitor of the guards."""

    @property
    def gate(self) -> Gate | None:
        """The gate; without one, no step may ask for a decision."""


def drive(steps: Steps[_Result], resources: StepResources) -> _Result:
    """Run the steps and return their result."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
        if isinstance(needed, RunGuards):
            answer = resources.pipeline.run(*needed, monitor=resources.monitor)
        else:
            assert resources.gate is not None
            answer = resources.gate.decide(needed.request, **_gate_arguments(needed))


async def adrive(steps: Steps[_Result], resources: StepResources) -> _Result:
    """Run the steps and return their result, without blocking the event loop."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
        if isinstance(needed, RunGuards):
            answer = await resources.pipeline.arun(*needed, monitor=resources.monitor)
        else:
            assert resources.gate is not None
            answer = await resources.gate.adecide(needed.request, **_gate_arguments(needed))


def _gate_arguments(needed: RunGate) -> dict[str, Any]:
    return {
        "findings": needed.findings,
        "grants": needed.grants,
        "accepted": needed.accepted,
        "tenant": needed.tenant,
    }
