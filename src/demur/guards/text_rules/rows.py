"""Hold rules to their own rows: what each must hit, and the harmless twins it must not."""

from collections.abc import Iterator

from demur.errors import Problem
from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.guards.text_rules.text import scan_text

__all__ = ["check_rows"]

_SHOWN = 80


def check_rows(rules: RuleSet) -> list[Problem]:
    """Return a problem for each `refuse` row that is missed and each `allow` row that is hit."""
    return [problem for rule in rules.rules for problem in _check_rule_rows(rule, rules)]


def _check_rule_rows(rule: TextRule, rules: RuleSet) -> Iterator[Problem]:
    for row in rule.refuse:
        if not _row_hits(rule, row, rules):
            yield Problem(rule.where, f"rule `{rule.id}` misses its `refuse` row `{row[:_SHOWN]}`")
    for row in rule.allow:
        for hit in _row_hits(rule, row, rules):
            problem = f"rule `{rule.id}` hits its `allow` row `{row[:_SHOWN]}`"
            yield Problem(rule.where, problem, f"it sees `{hit[:_SHOWN]}`")


def _row_hits(rule: TextRule, row: str, rules: RuleSet) -> list[str]:
    return [row[hit.start : hit.end] for hit in scan_text(row, rules) if hit.rule.id == rule.id]
