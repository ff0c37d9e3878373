"""The rules of the surface `skill`, and a hit: a rule that holds at a place in a file.

Code decides by the rules of `rules/skill_code.yaml`. Rules for the words of Markdown are in
`rules/skill.yaml`; rules for shell commands belong to the surface `code_execution`. Reports explain
both by their codes.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.guards.code_execution.rules import read_table
from demur.model.finding import Action

_MILDER = {Action.BLOCK: Action.ESCALATE, Action.ESCALATE: Action.WARN, Action.WARN: Action.WARN}
_UNEXPLAINED = {
    "why": "see the page of the reason code",
    "fix": "have a person read the file before it is trusted",
}


class SkillRule(NamedTuple):
    """One rule: its code, its action, why it matters, and how to fix it."""

    id: str
    code: ReasonCode
    action: Action
    why: str
    fix: str


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


@cache
def skill_rules() -> Mapping[str, SkillRule]:
    """Return the rules that code decides by, by their ids."""
    return {
        rule_id: SkillRule(
            rule_id, ReasonCode(row["code"]), Action(row["action"]), row["why"], row["fix"]
        )
        for rule_id, row in read_table("skill_code.yaml")["rules"].items()
    }


def find_rule(rule_id: str, code: str, action: Action) -> SkillRule:
    """Return the rule of this id; for a rule of another surface, one explained by its code."""
    if rule_id in skill_rules():
        return skill_rules()[rule_id]
    texts = read_table("skill_code.yaml")["codes"].get(code, _UNEXPLAINED)
    return SkillRule(rule_id, ReasonCode(code), action, **texts)
