"""Find orders in what a tool returned. Codes: CONTEXT_INJECTION, EXFILTRATION_RISK, PII_DETECTED.

A result is data. Text in it that speaks to the assistant, poses as a turn of the chat, hides
from the reader or carries data away in a link is an indirect injection.

Limits: as in `returned_text`; a false statement that gives no order (`the capital is X`)
is not seen. Files that are meant to instruct agents are recorded where they speak to
them, and held where they ask for what only an attacker needs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.returned.returned_text import RETURNED_CODES, finding_order, check_returned_text
from demur.guards.secrets.personal_text import find_personal_data
from demur.guards.text_rules.rule import RuleSet
from demur.model.finding import Action, Finding

__all__ = ["CODES", "SURFACE", "ToolResult", "ToolResultConfig", "check"]

SURFACE = Surface.TOOL_RESULT
CODES: tuple[str, ...] = (*RETURNED_CODES, ReasonCode.PII_DETECTED)


class ToolResult(NamedTuple):
    """The text that a tool returned, and the tool's name, where known."""

    text: str
    tool: str = "tool"


class ToolResultConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the tool-result guard.

    `rules` replaces the built-in ones. `personal` is the action for certain personal data;
    None looks for none.
    """

    rules: RuleSet | None = None
    personal: Action | None = Action.WARN


_DEFAULT = ToolResultConfig()


def check(event: ToolResult, config: ToolResultConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in a tool's result, in the order of spans."""
    found = list(check_returned_text(event.text, event.tool, config.rules, SURFACE))
    found += find_personal_data(event.text, config.personal, SURFACE)
    yield from sorted(found, key=finding_order)
