import json

import msgspec
import pytest
from gates import finding, opened, refund

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.compose import compose
from demur.respond.sources import parse_compose_source


def test_a_refusal_and_a_decision_come_back_as_they_were() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 7})
    decision = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])

    for source in (refusal, decision):
        assert parse_compose_source(json.loads(msgspec.json.encode(source))) == source


def test_a_record_comes_back_with_its_personal_part() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(evidence={"command": "curl"})])
    shown = json.loads(json.dumps(dict(record)))

    assert compose(parse_compose_source(shown)) == compose(record)
    back = parse_compose_source(shown)
    assert isinstance(back, DecisionRecord)
    assert dict(back) == dict(record)
    erased = {**shown, **dict.fromkeys(("request", "findings", "facts", "grants", "scope"))}
    assert compose(parse_compose_source(erased)).code == "RCE_RISK"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"schema_version": "x.v1"}, "unknown schema version `x.v1`"),
        ({}, "object missing required field `verdict`"),
        ({"schema_version": "refusal.v1"}, "object missing required field"),
    ],
)
def test_what_is_none_of_them_is_told(value: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_compose_source(value)
