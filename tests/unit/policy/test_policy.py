"""A policy as a value, and the digest that names its meaning."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.small_policies import policy_of, rule

from demur.codes.registry import Registry
from demur.policy.loader import parse_policy
from demur.policy.policy import Operator, Policy, Stage, describe_condition

CORE = Registry.load()
TEXT = """# what it is for
schema_version: policy.v1
policy_id: p
policy_version: '1'
mode: enforce
defaults: {verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE}
rates: {EUR: 2}
shadow: [{code: PII_DETECTED, reason: why}]
rules:
  - id: A
    stage: ESCALATIONS
    if: {action_type: refund, amount_usd: {gt: 250}}
    then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING], missing: [m], constraints: [c]}
  - id: B
    stage: HARD_BLOCKS
    if: {not: {evidence.a: {in: [x, y]}}}
    then: {verdict: DENY, reason_codes: [RCE_RISK]}
"""


def load(text: str) -> Policy:
    return parse_policy(text, registry=CORE)


def shuffled(value: Any, draw: Any) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(sorted(value)))
        return {key: shuffled(value[key], draw) for key in keys}
    return [shuffled(item, draw) for item in value] if isinstance(value, list) else value


@given(st.data())
def test_the_digest_ignores_the_order_of_keys_and_the_way_of_writing(data: st.DataObject) -> None:
    moved = shuffled(yaml.safe_load(TEXT), data.draw)

    assert load(json.dumps(moved)).digest == load(TEXT).digest
    assert load(yaml.safe_dump(moved, sort_keys=False)).digest == load(TEXT).digest


def test_the_digest_ignores_comments_names_and_number_forms() -> None:
    digest = load(TEXT).digest

    assert digest.startswith("sha256:")
    assert load(f"{TEXT}\n# more words\n").digest == digest
    assert load(TEXT.replace("gt: 250", "gt: 250.0")).digest == digest
    assert parse_policy(TEXT, "elsewhere.yaml", registry=CORE).digest == digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("policy_id: p", "policy_id: q"),
        ("policy_version: '1'", "policy_version: '2'"),
        ("mode: enforce", "mode: advisory"),
        ("verdict: ESCALATE, reason_code: NO_MATCH", "verdict: DENY, reason_code: NO_MATCH"),
        ("EUR: 2", "EUR: 2.5"),
        ("EUR: 2", "GBP: 2"),
        ("code: PII_DETECTED", "code: SECRET_LEAK"),
        ("reason: why", "reason: because"),
        ("id: A", "id: C"),
        ("stage: ESCALATIONS", "stage: REQUIREMENTS"),
        ("action_type: refund", "action_type: credit"),
        ("gt: 250", "gt: 251"),
        ("gt: 250", "gte: 250"),
        ("amount_usd: {", "evidence.n: {"),
        ("reason_codes: [SCOPE_MISSING]", "reason_codes: [APPROVAL_REQUIRED]"),
        ("missing: [m]", "missing: [n]"),
        ("constraints: [c]", "constraints: [d]"),
        ("constraints: [c]", "constraints: [c], obligations: [human_review]"),
        ("in: [x, y]", "in: [x]"),
        ("not: {evidence.a: {in: [x, y]}}", "evidence.a: {in: [x, y]}"),
        ("  - id: B", "    shadow: true\n  - id: B"),
    ],
)
def test_the_digest_changes_with_any_meaning(old: str, new: str) -> None:
    assert TEXT.count(old) == 1

    assert load(TEXT.replace(old, new)).digest != load(TEXT).digest


def test_the_order_of_rules_is_part_of_the_meaning() -> None:
    raw = yaml.safe_load(TEXT)
    raw["rules"].reverse()

    assert load(json.dumps(raw)).digest != load(TEXT).digest


def test_a_policy_cannot_be_changed() -> None:
    policy = load(TEXT)

    with pytest.raises(AttributeError):
        policy.digest = "sha256:0"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        policy.rules[0].then.verdict = None  # type: ignore[misc, assignment]


def test_stages_stand_in_the_order_of_the_report() -> None:
    assert list(Stage) == ["REQUIREMENTS", "HARD_BLOCKS", "ESCALATIONS", "ALLOW_PATHS"]
    assert len(Operator) == 13


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
