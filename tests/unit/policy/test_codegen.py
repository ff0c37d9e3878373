import json
from types import MappingProxyType
from typing import Any

import pytest

from demur.policy.codegen import write_rule_function
from demur.policy.facts import MISSING
from demur.policy.loader import parse_policy
from demur.policy.policy import Condition, Policy


def policy(*conditions: dict[str, Any]) -> Policy:
    rules = [
        {
            "id": f"R{number}",
            "stage": "ESCALATIONS",
            "if": condition,
            "then": {"verdict": "ESCALATE", "reason_codes": ["APPROVAL_REQUIRED"]},
        }
        for number, condition in enumerate(conditions)
    ]
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    return parse_policy(json.dumps({**head, "rules": rules}))


def conditions(written: Policy, *indexes: int) -> dict[int, Condition]:
    return {index: written.rules[index].condition for index in indexes}


def test_a_function_tells_rules_that_match_from_rules_that_cannot_be_judged() -> None:
    written = policy({"evidence.risk": {"gt": 5}}, {"evidence.name": "x"}, {"subject.id": "s"})
    judge = write_rule_function(conditions(written, 0, 1, 2), {})

    assert judge.paths == ("evidence.risk", "evidence.name", "subject.id")
    assert judge.call({"evidence": {"risk": 6, "name": 7}}, None) == ([0], [1], (6, 7, MISSING))
    assert judge.call({"evidence": {"risk": 5, "name": "x"}, "subject": {"id": "s"}}, None) == (
        [1, 2],
        [],
        (5, "x", "s"),
    )


def test_only_the_rules_it_was_written_for_are_judged() -> None:
    written = policy({"evidence.risk": 1}, {"evidence.risk": 1}, {"evidence.risk": 1})

    judge = write_rule_function(conditions(written, 0, 2), {})

    assert judge.call({"evidence": {"risk": 1}}, None) == ([0, 2], [], (1,))


@pytest.mark.parametrize("wrap", [dict, MappingProxyType])
def test_any_mapping_will_do(wrap: Any) -> None:
    written = policy({"evidence.risk": 1, "amount_usd": {"lte": 20}})
    request = wrap(
        {"evidence": wrap({"risk": 1}), "action": {"amount": {"value": 20, "currency": "USD"}}}
    )

    judge = write_rule_function(conditions(written, 0), {})

    assert judge.call(request, None) == ([0], [], (1, 20))
