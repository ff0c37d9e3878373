"""Small rule sets for tests, written as people write them."""

from demur.codes.registry import Registry
from demur.guards.text_rules import RuleSet, parse_rules

__all__ = ["make_rules"]

_HEAD = "schema_version: guard_rules.v1\nsurface: output\nrules:\n"
_RULE = """
  - id: {id}
    code: OUTPUT_FORBIDDEN
    action: {action}
    description: a toy
    refuse: [x]
    allow: [y]
"""


def make_rules(*rules: str, action: str = "block") -> RuleSet:
    """Return rules `R0`, `R1`, …; each argument holds the lines that are special to one."""
    text = _HEAD
    for number, lines in enumerate(rules):
        text += _RULE.format(id=f"R{number}", action=action)
        text += "".join(f"    {line}\n" for line in lines.splitlines())
    return parse_rules(text, registry=Registry.load())
