from typing import Any

import pytest
from small_policies import policy_of, rule

from demur.policy.words import describe_condition


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({}, "always"),
        ({"action_type": "refund"}, "action.type is refund"),
        ({"evidence.a": {"ne": 1}}, "evidence.a is not 1"),
        (
            {"evidence.a": {"gt": 1, "lte": 2.5}},
            "evidence.a is over 1 and evidence.a is at most 2.5",
        ),
        ({"evidence.a": {"gte": 1, "lt": 2}}, "evidence.a is at least 1 and evidence.a is under 2"),
        ({"evidence.a": {"in": ["x", "y z"]}}, "evidence.a is one of (x, 'y z')"),
        ({"evidence.a": {"not_in": [True]}}, "evidence.a is none of (true)"),
        ({"evidence.a": {"contains": ""}}, "evidence.a contains ''"),
        ({"evidence.a": {"contains": "\n"}}, r"evidence.a contains '\n'"),
        ({"evidence.a": {"starts_with": "T-"}}, "evidence.a starts with T-"),
        ({"evidence.a": {"matches": "^x$"}}, "evidence.a matches ^x$"),
        ({"evidence.a": {"exists": True}}, "evidence.a is there"),
        ({"evidence.a": {"missing": True}}, "evidence.a is missing"),
        ({"not": {"evidence.a": False}}, "not (evidence.a is false)"),
        ({"any": [{"evidence.a": 1}]}, "evidence.a is 1"),
        (
            {"request_id": "r", "any": [{"evidence.a": 1}, {"evidence.b": 2, "evidence.c": 3}]},
            "request_id is r and (evidence.a is 1 or (evidence.b is 2 and evidence.c is 3))",
        ),
    ],
)
def test_a_condition_reads_as_a_sentence(condition: dict[str, Any], words: str) -> None:
    assert describe_condition(policy_of(rule(condition)).rules[0].condition) == words
