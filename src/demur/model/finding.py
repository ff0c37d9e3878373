"""A finding: a code that a guard reports, with its place. A guard never decides."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from demur.codes.vocabulary import Surface
from demur.errors import InputError


class Action(StrEnum):
    """The action that a guard asks for; the gate decides on it.

    `block`: what the code's class demands. `escalate`: at least a person. `warn`: nothing, but it
    is recorded and rules can read it.
    """

    BLOCK = "block"
    ESCALATE = "escalate"
    WARN = "warn"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a finding in the text: `text[start:end]`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise InputError(f"a span runs forward from 0, not from {self.start} to {self.end}")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of a guard."""

    code: str
    surface: Surface
    span: Span | None = None
    detail: str = ""
    evidence: Mapping[str, Any] = {}
    action: Action = Action.BLOCK
