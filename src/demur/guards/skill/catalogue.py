"""All rules that code decides by, and words for those from elsewhere.

Rules for the words of Markdown stand in `rules/skill.yaml`; those for shell commands belong to
the surface `code_execution`. A report can explain both by their codes.
"""

from collections.abc import Mapping

from demur.codes.reason_code import ReasonCode as Code
from demur.guards.skill.file_rules import FILE_RULES
from demur.guards.skill.python_rules import PYTHON_RULES
from demur.guards.skill.rule import BY_HAND, REMOVE, SkillRule
from demur.model.finding import Action

__all__ = ["RULES", "find_rule"]

_READ = "read what it does, or replace it by plain code"
RULES: Mapping[str, SkillRule] = {rule.id: rule for rule in (*PYTHON_RULES, *FILE_RULES)}
_WHY: Mapping[str, tuple[str, str]] = {
    Code.RCE_RISK: ("unreviewed code would run", _READ),
    Code.OBFUSCATED_CODE: ("code that hides what it does cannot be judged", _READ),
    Code.EXFILTRATION_RISK: ("private data would leave this machine", REMOVE),
    Code.DESTRUCTIVE_ACTION: ("data would be lost for good", "limit it to the skill's own files"),
    Code.PRIVILEGE_ESCALATION: ("it takes rights that the agent does not have", BY_HAND),
    Code.SKILL_INJECTION: ("an agent would follow it against its user", REMOVE),
    Code.SECRET_LEAK: ("everyone who has the skill has the credential", "revoke it, and remove it"),
}


def find_rule(rule_id: str, code: str, action: Action) -> SkillRule:
    """Return the rule of this id; for a rule of another surface, one explained by its code."""
    if rule_id in RULES:
        return RULES[rule_id]
    why, fix = _WHY.get(code, ("see the page of the reason code", BY_HAND))
    return SkillRule(rule_id, Code(code), action, why, fix)
