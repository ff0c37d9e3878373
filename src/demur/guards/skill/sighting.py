"""What a reader of one kind of file saw: a rule of the catalogue, and where."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.model.finding import Action

__all__ = ["SkillHit", "soften_action"]

_MILDER = {Action.BLOCK: Action.ESCALATE, Action.ESCALATE: Action.WARN, Action.WARN: Action.WARN}


class SkillHit(NamedTuple):
    """A rule that holds at a place in a file. Code and action default to the rule's."""

    rule: str
    start: int
    end: int
    detail: str
    evidence: Mapping[str, Any] = {}
    code: str | None = None
    action: Action | None = None


def soften_action(action: Action) -> Action:
    """Return the action one step down; a warning stays one."""
    return _MILDER[action]
