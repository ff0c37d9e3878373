"""A rule of this surface, as a value."""

from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

__all__ = ["BY_HAND", "REMOVE", "SkillRule"]

BY_HAND = "have a person read the file before it is trusted"
REMOVE = "remove it, or do not trust the skill"


class SkillRule(NamedTuple):
    """One rule: its code, its action, why it matters, and how to fix it."""

    id: str
    code: ReasonCode
    action: Action
    why: str
    fix: str
