"""What a guard is: a module that looks at one surface and says what it saw. It never decides."""

from collections.abc import Iterator
from typing import Any, Protocol

from demur.codes.vocabulary import Surface
from demur.model.finding import Finding

__all__ = ["Guard"]


class Guard(Protocol):
    """The contract of a guard, built in or from an entry point of the group `demur.guards`.

    `check` is pure: the same event and config give the same findings, in the order of their
    spans. It raises `InputError` for an event it cannot take, and nothing else. Each
    finding has one of `CODES`, the guard's surface, and a span within the event's text
    where there is one; its detail is short, and holds no secret.
    """

    # Read-only properties, so that a module's tuple of `ReasonCode` fits the type.
    @property
    def SURFACE(self) -> Surface:  # noqa: N802 - a module's constant
        """The surface that it inspects."""

    @property
    def CODES(self) -> tuple[str, ...]:  # noqa: N802 - a module's constant
        """The codes of its findings."""

    def check(self, event: Any, config: Any) -> Iterator[Finding]:
        """Yield the findings in `event`."""
