"""Shell scripts and single commands, judged by the guard of the surface `code_execution`.

A script is not about to run in a known folder. So a deletion whose path only says where it is
from there, or that reaches no further than a tool's own hidden folder, is put to a person.
"""

import re
from collections.abc import Iterator

from demur.codes.reason_code import ReasonCode
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.event import Command, Language
from demur.guards.code_execution.guard import check
from demur.guards.skill.sighting import SkillHit, soften_action
from demur.model.finding import Action, Finding, Span

__all__ = ["scan_shell"]

_CONFIG = CommandConfig()
_NARROW = re.compile(r"[^/~$\\%].*|~/\.[^/*]+/[^*].*", re.DOTALL)


def scan_shell(text: str, language: Language = Language.SHELL) -> Iterator[SkillHit]:
    """Yield the hits for the commands in `text`.

    The folder that a script will run in is unknown. So a deletion of a relative path, or of a
    tool's own hidden folder, is escalated instead of blocked.
    """
    for finding in check(Command(text=text, language=language), _CONFIG):
        span = finding.span or Span(start=0, end=0)
        rule = str(finding.evidence.get("rule", finding.code))
        evidence, code = finding.evidence, finding.code
        action = _soften_narrow(finding)
        yield SkillHit(rule, span.start, span.end, finding.detail, evidence, code, action)


def _soften_narrow(finding: Finding) -> Action:
    target = str(finding.evidence.get("target", ""))
    narrow = finding.code == ReasonCode.DESTRUCTIVE_ACTION and _NARROW.fullmatch(target)
    return soften_action(finding.action) if narrow else finding.action
