"""The tables of verbs are sound."""

import re

import pytest

from demur.guards.code_execution.rules import RULES
from demur.guards.code_execution.verbs import (
    cmdlets,
    data,
    discovery,
    network,
    rights,
    startup,
    system,
    windows,
)
from demur.guards.code_execution.verbs.around import CommandRows

TABLES = [
    module.ROWS for module in (cmdlets, data, discovery, network, rights, startup, system, windows)
]


@pytest.mark.parametrize("table", TABLES)
def test_each_row_names_a_rule_and_a_pattern(table: CommandRows) -> None:
    for verb, rows in table.items():
        assert verb == verb.lower()
        for rule, pattern in rows:
            assert rule in RULES, verb
            re.compile(pattern)


def test_each_shape_names_a_rule() -> None:
    assert {rule for rule, _ in cmdlets.SHAPES} <= set(RULES)


def test_no_tool_is_both_for_tests_and_for_attacks() -> None:
    assert not discovery.ATTACK_TOOLS & discovery.TESTING_TOOLS
