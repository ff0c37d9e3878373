"""The tables of verbs are sound."""

import re

import pytest

from demur.guards.code_execution import (
    cmdlet_tables,
    data_checks,
    network_checks,
    rights_checks,
    unix_tables,
    windows_tables,
)
from demur.guards.code_execution.context import CommandRows
from demur.guards.code_execution.rules import RULES

TABLES = [
    module.ROWS
    for module in (
        cmdlet_tables,
        data_checks,
        unix_tables,
        network_checks,
        rights_checks,
        rights_checks,
        unix_tables,
        windows_tables,
    )
]


@pytest.mark.parametrize("table", TABLES)
def test_each_row_names_a_rule_and_a_pattern(table: CommandRows) -> None:
    for verb, rows in table.items():
        assert verb == verb.lower()
        for rule, pattern in rows:
            assert rule in RULES, verb
            re.compile(pattern)


def test_each_shape_names_a_rule() -> None:
    assert {rule for rule, _ in cmdlet_tables.SHAPES} <= set(RULES)


def test_no_tool_is_both_for_tests_and_for_attacks() -> None:
    assert not unix_tables.ATTACK_TOOLS & unix_tables.TESTING_TOOLS
