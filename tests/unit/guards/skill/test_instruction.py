import pytest

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.guards.skill.bundle import SURFACE
from demur.guards.skill.instruction import find_instructions
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import MAX_TEXT_LENGTH

RULES = builtin_rules(SURFACE).rules
ENTRY = Registry.load()[ReasonCode.SKILL_INJECTION]


@pytest.mark.parametrize(("rule", "row"), [(rule.id, row) for rule in RULES for row in rule.refuse])
def test_each_rule_hits_its_rows(rule: str, row: str) -> None:
    assert rule in {seen.rule for seen in find_instructions(row)}


@pytest.mark.parametrize("row", [row for rule in RULES for row in rule.allow])
def test_no_rule_hits_a_harmless_twin(row: str) -> None:
    assert list(find_instructions(row)) == []


@pytest.mark.parametrize("row", ENTRY.examples.refuse)
def test_the_registered_rows_are_found(row: str) -> None:
    assert {seen.code for seen in find_instructions(row)} == {ReasonCode.SKILL_INJECTION}


@pytest.mark.parametrize("row", ENTRY.examples.allow)
def test_the_registered_twins_pass(row: str) -> None:
    assert list(find_instructions(row)) == []


def test_every_rule_names_a_mechanism_of_this_surface() -> None:
    assert {rule.code for rule in RULES} == {ReasonCode.SKILL_INJECTION}


def test_a_text_that_is_too_long_was_not_judged() -> None:
    [seen] = find_instructions("a" * (MAX_TEXT_LENGTH + 1))

    assert seen.rule == "UNPARSED"
