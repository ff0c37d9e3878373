"""A rule of this surface, as a value."""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

__all__ = ["BY_HAND", "REMOVE", "Rule"]

BY_HAND = "have a person read the file before it is trusted"
REMOVE = "remove it, or do not trust the skill"


class Rule(NamedTuple):
    """One rule: its code, what it asks for, why it matters, and what helps."""

    id: str
    code: ReasonCode
    action: Action
    why: str
    fix: str
