"""A finding: what a guard saw, where, and by which code. A guard never decides."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from demur.codes.vocabulary import Surface
from demur.errors import InputError

__all__ = ["Action", "Finding", "Span"]


class Action(StrEnum):
    """What a guard asks for. It sees; what becomes of it is decided elsewhere.

    `block`: what the code's class demands. `escalate`: a person, at least. `warn`: nothing,
    but it goes on record and rules can read it.
    """

    BLOCK = "block"
    ESCALATE = "escalate"
    WARN = "warn"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the text that was seen: `text[start:end]`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise InputError(f"a span runs forward from 0, not from {self.start} to {self.end}")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a guard saw."""

    code: str
    surface: Surface
    span: Span | None = None
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    action: Action = Action.BLOCK
