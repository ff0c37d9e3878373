"""Orders to an agent in the words of a text, by the rules of `rules/skill.yaml`."""

from collections.abc import Iterator

from demur.errors import InputError
from demur.guards.skill.bundle import SURFACE
from demur.guards.skill.sighting import SkillHit
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import PLAIN_READING, scan_text

__all__ = ["find_instructions"]


def find_instructions(text: str) -> Iterator[SkillHit]:
    """Yield the instructions in `text` that try to take over an agent."""
    try:
        hits = scan_text(text, builtin_rules(SURFACE))
    except InputError as error:
        yield SkillHit("UNPARSED", 0, 0, error.problem[:100])
        return
    for rule, start, end, via in hits:
        evidence = {} if via == PLAIN_READING else {"via": via}
        yield SkillHit(rule.id, start, end, rule.description, evidence, rule.code, rule.action)
