from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_call.operator import TrustedTargets
from demur.guards.tool_call.rule import (
    DEFAULT_ARGUMENT_RULES,
    ArgumentRule,
    apply_rule,
    read_argument_rules,
)
from demur.model.finding import Action

ROW = {"id": "BIG_AMOUNT", "paths": ["amount"], "operator": "gt", "value": 100}


def test_rules_are_read_from_data() -> None:
    [rule] = read_argument_rules([{**ROW, "action": "escalate", "tools": ["pay_*"]}])

    assert rule.action is Action.ESCALATE
    assert rule.tools == ("pay_*",)
    assert rule.reason == "TOOL_NOT_ALLOWED"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "big amount"},
        {"paths": []},
        {"tools": []},
        {"paths": ["a..b"]},
        {"paths": ["a.**"]},
        {"paths": ["**"]},
        {"paths": [".".join("a" * 21)]},
        {"operator": "bigger"},
        {"value": "a lot"},
        {"colour": "red"},
        {"action": "shout"},
    ],
)
def test_a_row_that_is_no_rule_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_argument_rules([{**ROW, **change}])


def test_an_id_stands_once() -> None:
    with pytest.raises(InputError, match="two rules"):
        read_argument_rules([ROW, ROW])


def test_a_rule_looks_only_at_its_tools() -> None:
    [rule] = read_argument_rules([{**ROW, "tools": ["pay_*"]}])

    assert len(list(apply_rule(rule, "pay_out", {"amount": 101}, TrustedTargets()))) == 1
    assert list(apply_rule(rule, "list", {"amount": 101}, TrustedTargets())) == []


def test_what_two_paths_lead_to_is_seen_once() -> None:
    rule = ArgumentRule(id="NO_DOTS", paths=("a.b", "**.b", "a"), operator="contains", value="..")

    [sight] = apply_rule(rule, "t", {"a": {"b": ".."}}, TrustedTargets())

    assert sight.place == "a.b"


def test_a_rule_may_name_its_own_code() -> None:
    rule = ArgumentRule(id="NO_X", paths=("x",), operator="present", code="POLICY_VIOLATION")

    assert rule.reason == "POLICY_VIOLATION"


def test_the_default_rules_have_the_codes_of_their_operators() -> None:
    assert {rule.id: str(rule.reason) for rule in DEFAULT_ARGUMENT_RULES} == {
        "METADATA_ADDRESS": "EGRESS_DENIED",
        "PRIVATE_ADDRESS": "EGRESS_DENIED",
        "OUTSIDE_WORKSPACE": "TOOL_NOT_ALLOWED",
        "SWEEPING_SQL": "DESTRUCTIVE_ACTION",
    }
