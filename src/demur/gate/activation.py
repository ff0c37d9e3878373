"""Activations: what a guard did, for those who watch guards. Nothing here decides."""

from datetime import datetime
from typing import Protocol

import msgspec

__all__ = ["Activation", "Monitor"]


class Activation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A guard that spoke: when, where, by which code, what it asked for, and how long it took.

    `preview` is a short piece of the text, without anything that looks like a secret. `note`
    says what went wrong with a guard that could not judge.
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
    """Who is told what guards do. What it raises is logged, and changes nothing."""

    def record(self, activation: Activation) -> None:
        """Take note of an activation."""

    def ran(self, surface: str, guard: str, action: str = "") -> None:
        """Take note that a guard looked at something, and of the strictest that it asked for."""
