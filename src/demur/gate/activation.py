"""Activations of guards, and the monitor that receives them. Nothing here decides."""

from datetime import datetime
from typing import Protocol

import msgspec

__all__ = ["Activation", "Monitor"]


class Activation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding of a guard: time, surface, code, requested action and duration.

    `preview` is a short piece of the text without secrets. `note` says why a guard gave no
    verdict.
    """

    time: datetime
    surface: str
    guard: str
    code: str
    action: str
    preview: str = ""
    milliseconds: float = 0.0
    shadow: bool = False
    note: str = ""


class Monitor(Protocol):
    """Receives what guards do. An error that it raises is logged and changes nothing."""

    def record(self, activation: Activation) -> None:
        """Record an activation."""

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard, with the strictest action that it asked for."""
