from typing import Any

import pytest
from jsonschema import Draft202012Validator

from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.model.schema import generated_files, record_schema, request_schema
from demur.policy.loader import parse_policy

POLICY = """
schema_version: policy.v1
policy_id: p
policy_version: 1.0.0
rules: []
"""
REQUEST: dict[str, Any] = {"action": {"type": "refund", "amount": {"value": 5, "currency": "USD"}}}


def decided(request: dict[str, Any]) -> DecisionRecord:
    return Gate(parse_policy(POLICY)).decide(request)


def test_both_schemas_are_schemas_and_are_published() -> None:
    for schema in (request_schema(), record_schema()):
        Draft202012Validator.check_schema(schema)

    assert [name for name, _ in generated_files()] == [
        "spec/schemas/decision_request.v1.schema.json",
        "spec/schemas/decision_record.v1.schema.json",
    ]


def test_a_record_fits_its_schema_field_by_field() -> None:
    record = dict(decided(REQUEST))

    assert list(Draft202012Validator(record_schema()).iter_errors(record)) == []
    assert set(record) == set(record_schema()["properties"])


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        (REQUEST, True),
        ({**REQUEST, "subject": {"id": "a", "roles": ["x"], "team": "blue"}}, True),
        ({}, False),
        ({"action": {"type": ""}}, False),
        ({**REQUEST, "mode": "advisory"}, False),
        ({**REQUEST, "subject": {"id": 5}}, False),
    ],
)
def test_the_schema_of_requests_says_what_the_gate_says(
    request_: dict[str, Any], fits: bool
) -> None:
    validator = Draft202012Validator(request_schema())

    assert validator.is_valid(request_) is fits
    if fits:
        assert decided(request_).verdict
