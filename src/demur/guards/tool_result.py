"""Find orders in what a tool returned. Codes: CONTEXT_INJECTION, EXFILTRATION_RISK, PII_DETECTED.

A result is data. Text in it that speaks to the assistant, poses as a turn of the chat, hides
from the reader or carries data away in a link is an indirect injection.

Limits: as in `demur.guards.returned_text`; a false statement that gives no order (`the capital
is X`) is not seen. Files that are meant to instruct agents are recorded where they speak to
them, and held where they ask for what only an attacker needs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.personal_data import personal_findings
from demur.guards.returned_text import RETURNED_CODES, check_returned
from demur.guards.rule import RuleSet
from demur.model.finding import Finding

__all__ = ["CODES", "SURFACE", "ToolResult", "ToolResultConfig", "check"]

SURFACE = Surface.TOOL_RESULT
CODES = RETURNED_CODES


class ToolResult(NamedTuple):
    """What a tool returned, and the tool's name, where it is known."""

    text: str
    tool: str = "tool"


class ToolResultConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in results. `rules`: others than the built-in ones."""

    rules: RuleSet | None = None


_DEFAULT = ToolResultConfig()


def check(event: ToolResult, config: ToolResultConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield what is to be seen in a tool's result, in the order of spans."""
    yield from check_returned(event.text, event.tool, config.rules, SURFACE)
