"""Guards for tests: each does one thing that a guard in the wild may do."""

import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from demur.codes.vocabulary import Surface
from demur.gate.monitor import Activation
from demur.guards.contract import Guard
from demur.model.finding import Finding, Span

__all__ = ["Notes", "finding", "guard", "hanging", "raising", "seeing"]


def finding(code: str = "RCE_RISK", start: int = 0, end: int = 1, **more: Any) -> Finding:
    """Return what a guard of input saw."""
    usual: dict[str, Any] = {"surface": Surface.INPUT, "span": Span(start=start, end=end)}
    return Finding(code=code, **{**usual, **more})


def guard(
    check: Callable[[Any, Any], Any],
    codes: tuple[str, ...] = ("RCE_RISK", "CRISIS_ESCALATION", "GUARDRAIL_PARTIAL"),
    surface: Surface = Surface.INPUT,
    name: str = "toy",
    **more: Any,
) -> Guard:
    """Return a guard with this check."""
    made = SimpleNamespace(SURFACE=surface, CODES=codes, check=check, __name__=name, **more)
    return cast("Guard", made)


def seeing(*findings: Any, **more: Any) -> Guard:
    """Return a guard that always sees the same."""
    return guard(lambda _event, _config: iter(findings), **more)


def raising(error: BaseException, before: Iterable[Finding] = (), **more: Any) -> Guard:
    """Return a guard that raises, after some findings."""

    def check(_event: Any, _config: Any) -> Iterator[Finding]:
        yield from before
        raise error

    return guard(check, **more)


def hanging(seconds: float = 30, **more: Any) -> Guard:
    """Return a guard that takes its time."""

    def check(_event: Any, _config: Any) -> Iterator[Finding]:
        time.sleep(seconds)
        yield finding()

    return guard(check, **more)


class Notes:
    """A monitor that writes everything down."""

    def __init__(self) -> None:
        self.activations: list[Activation] = []
        self.runs: list[tuple[str, str, str]] = []

    def record(self, activation: Activation) -> None:
        """Take note of an activation."""
        self.activations.append(activation)

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Take note of a run."""
        self.runs.append((surface, guard, action))

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """What was activated: guard, code, action."""
        return [(one.guard, one.code, one.action) for one in self.activations]
