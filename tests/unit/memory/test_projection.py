import math
from collections.abc import Sequence
from typing import Any

import pytest

from demur.canonical import digest_of_bytes
from demur.errors import InputError
from demur.memory.experience import Vector, cosine_score
from demur.memory.projection import (
    GROUPS,
    EmbeddingProjection,
    HashedProjection,
    Projection,
    extract_features,
    intent_text,
)
from demur.memory.recall import MemorySettings

FACTS: dict[str, Any] = {
    "request_id": "r-1",
    "subject": {"type": "agent", "id": "support-7", "roles": ["support"]},
    "action": {
        "type": "refund",
        "intent": "Refund the customer for order 48213 because the item arrived damaged",
        "amount": {"value": 180, "currency": "USD"},
        "target": {"system": "billing", "resource_type": "order", "resource_id": "48213"},
        "tags": ["customer-facing"],
    },
    "evidence": {
        "ticket_id": "ZD-1001",
        "order_id": "48213",
        "customer_tier": "gold",
        "customer_age_days": 410,
        "previous_refunds": 1,
        "chargeback_risk": 0.07,
        "item_returned": False,
        "payment_method": "card",
    },
}
CLOSE = "Please refund order 99120, the customer says the item was damaged on arrival"
FAR = {"chargeback_risk": 0.9, "customer_age_days": 3, "customer_tier": "new"}
DEFAULTS = MemorySettings()
PINNED = "sha256:f101146c3a904bedef788193e2f8d80c7886c10a2666334b0ff0b70d41199e30"


def changed(*, evidence: dict[str, Any] | None = None, **action: Any) -> dict[str, Any]:
    facts = FACTS["evidence"] | (evidence or {})
    return {**FACTS, "action": FACTS["action"] | action, "evidence": facts}


def score(one: dict[str, Any], other: dict[str, Any], by: Projection | None = None) -> float:
    by = by or HashedProjection()
    first, second = by.project(one), by.project(other)
    return cosine_score(first.dot(second), first.norm, second.norm)


def test_the_vector_of_a_request_is_the_same_for_ever() -> None:
    """A projection that moves needs another name: stored vectors would no longer compare."""
    vector = HashedProjection(16).project({"action": {"type": "refund", "intent": "pay back"}})

    assert HashedProjection(16).name == "hashed.v1/16"
    assert dict(vector.items()) == {0: 100, 2: 100, 9: -158, 11: 100, 12: 400, 15: 574}
    assert digest_of_bytes(HashedProjection().project(FACTS).to_bytes()) == PINNED


def test_the_same_again_under_other_ids_blocks_and_lifts() -> None:
    again = changed(
        intent="Refund the customer for order 99120 because the item arrived damaged",
        evidence={"ticket_id": "ZD-7", "order_id": "99120"},
    )

    assert score(FACTS, again) >= max(DEFAULTS.block, DEFAULTS.allow)


def test_numbers_that_are_a_little_off_block_but_lift_nothing() -> None:
    near = changed(
        amount={"value": 210, "currency": "USD"},
        evidence={"customer_age_days": 380, "chargeback_risk": 0.06},
    )

    assert DEFAULTS.block <= score(FACTS, near) < DEFAULTS.allow


@pytest.mark.parametrize(
    "other",
    [
        changed(intent=CLOSE),
        changed(intent="Customer wants a refund: package came broken"),
        changed(evidence={"chargeback_risk": 0.9}),
        changed(amount={"value": 9000, "currency": "USD"}),
    ],
    ids=["close paraphrase", "loose paraphrase", "one fact far off", "other amount"],
)
def test_a_likeness_escalates_and_does_not_block(other: dict[str, Any]) -> None:
    assert DEFAULTS.escalate <= score(FACTS, other) < DEFAULTS.block


@pytest.mark.parametrize(
    "other",
    [
        changed(intent="Give back money, goods turned up smashed"),
        changed(evidence=FAR),
        changed(intent=CLOSE, evidence=FAR),
        changed(type="payout"),
        {**FACTS, "evidence": {}},
    ],
    ids=["other words", "other facts", "paraphrase and other facts", "other action", "no facts"],
)
def test_dissimilar_requests_stay_below_the_thresholds(other: dict[str, Any]) -> None:
    assert 0.5 < score(FACTS, other) < DEFAULTS.escalate


def test_something_else_altogether_scores_next_to_nothing() -> None:
    deploy = {
        "subject": {"type": "agent", "roles": ["deployer"]},
        "action": {"type": "deploy.release", "intent": "Deploy version 4.2.0 of the checkout"},
        "evidence": {"tests_passed": True, "coverage": 0.91},
    }

    assert score(FACTS, deploy) < 0.15


@pytest.mark.parametrize("size", [15, 65536])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="16 to 65535 places"):
        HashedProjection(size)


def test_an_empty_request_points_nowhere() -> None:
    assert HashedProjection().project({}) == Vector.from_values({})


def table(text: str) -> Sequence[float]:
    """Return a made-up embedding that knows two ways to ask for money."""
    return [0.6, 0.8, 0.0] if "money" in text or "Refund" in text else [0.0, 0.0, -2.5]


def test_an_embedding_sees_meaning_where_no_word_is_shared() -> None:
    model = EmbeddingProjection("table.v1", table)
    other = changed(intent="Give back money, goods turned up smashed")

    assert model.name == "table.v1+hashed.v1/512"
    assert score(FACTS, other, model) > DEFAULTS.allow > score(FACTS, other)
    assert score(FACTS, changed(intent="Lock the account"), model) < DEFAULTS.escalate


def test_an_embedding_of_any_length_counts_the_same() -> None:
    short = EmbeddingProjection("m", table)
    long = EmbeddingProjection("m", lambda text: [1e200 * number for number in table(text)])

    assert short.project(FACTS) == long.project(FACTS)


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0]])
def test_an_embedding_that_points_nowhere_adds_nothing(numbers: list[float]) -> None:
    model = EmbeddingProjection("m", lambda _: numbers)

    assert model.project(FACTS) == model.project(changed(intent=None))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_embedding_must_be_finite(bad: float) -> None:
    with pytest.raises(InputError, match="not finite"):
        EmbeddingProjection("m", lambda _: [0.1, bad]).project(FACTS)


def test_an_embedding_has_its_limit() -> None:
    with pytest.raises(InputError, match="at most 32767 numbers"):
        EmbeddingProjection("m", lambda _: [0.5] * 40_000).project(FACTS)


def evidence(**fields: Any) -> dict[str, int]:
    return extract_features({"evidence": fields})["evidence"]


def said(text: str) -> dict[str, int]:
    return extract_features({"action": {"intent": text}})["intent"]


def test_a_request_without_anything_has_no_features() -> None:
    assert extract_features({}) == {group: {} for group in GROUPS}
    assert extract_features(
        {"action": "refund", "evidence": None, "subject": []}
    ) == extract_features({})


def test_ids_unique_to_a_request_are_not_features() -> None:
    def facts(number: str) -> dict[str, Any]:
        return {
            "request_id": number,
            "continues": number,
            "tenant": {"id": number},
            "trace": {"span": number},
            "context": {"text": number},
            "context_ref": {"ref": number},
            "extensions": {"x": number},
            "policy": {"policy_id": number},
            "subject": {"id": number, "type": "agent"},
            "action": {"type": "refund", "target": {"resource_id": number}},
            "evidence": {"ticket_id": number, "orderId": number, "seen_at": number},
        }

    assert extract_features(facts("one")) == extract_features(facts("two"))


@pytest.mark.parametrize(
    "name", ["id", "ids", "ticket_id", "customer.id", "orderId", "sha_hash", "updatedAt", "email"]
)
def test_a_field_that_tells_one_from_another_counts_as_present(name: str) -> None:
    assert evidence(**{name: "x"}) == evidence(**{name: "y"}) != {}


@pytest.mark.parametrize("name", ["paid", "format", "grid", "status", "valid"])
def test_a_field_that_only_sounds_like_it_keeps_its_value(name: str) -> None:
    assert evidence(**{name: "x"}) != evidence(**{name: "y"})


def test_case_and_unicode_form_make_no_difference() -> None:
    assert said("\uff32efund the Caf\u00e9 STRASSE") == said("refund THE cafe\u0301 stra\u00dfe")


def test_the_order_of_keys_makes_no_difference() -> None:
    assert list(evidence(a=1, b={"c": "x", "d": True})) == list(
        evidence(b={"d": True, "c": "x"}, a=1)
    )


def test_a_number_in_words_counts_by_its_length() -> None:
    assert said("order 48213") == said("order 99120") != said("order 7")


def test_short_words_weigh_less_than_telling_ones() -> None:
    words = said("the refund")

    assert words["the"] < words["refund"]
    assert "~^re" in words
    assert "~^th" not in words
    assert words["the refund"] == 1


def test_near_numbers_share_features_and_far_ones_none() -> None:
    def shared(one: float, other: float) -> int:
        return len(evidence(risk=one).keys() & evidence(risk=other).keys()) - 1

    assert shared(180, 181) == 3
    assert shared(180, 210) == 2
    assert shared(0.07, 0.9) == 0
    assert shared(5, -5) == 0
    assert shared(0, 0.0001) == 0
    assert shared(0, 0.0) == 1


def test_booleans_are_not_numbers() -> None:
    assert evidence(x=True) != evidence(x=1)


def test_nothing_is_not_a_value() -> None:
    assert evidence(x=None) == {}


def test_a_list_is_a_bag_of_its_items() -> None:
    one = extract_features({"action": {"tags": ["a", "b"]}})["target"]

    assert one == extract_features({"action": {"tags": ["b", "a"]}})["target"]
    assert one.keys() > extract_features({"action": {"tags": ["a"]}})["target"].keys()


def test_a_long_text_is_cut() -> None:
    assert intent_text({"action": {"intent": "x" * 5000}}) == "x" * 1000
    assert len(evidence(text=" ".join(map(chr, range(0x4E00, 0x4F00))))) == 1 + 16


def test_many_fields_are_cut() -> None:
    assert len(evidence(**{f"flag{number:03}": True for number in range(500)})) == 2 * 128


def test_a_deeply_nested_value_counts_as_present() -> None:
    nested: Any = "x"
    for _ in range(20):
        nested = {"k": nested}

    assert evidence(k=nested) == {".".join(["k"] * 8): 4}


def test_other_parts_of_an_action_belong_to_its_target() -> None:
    assert extract_features({"action": {"command": "ls"}})["target"] == {
        "command": 4,
        "command=ls": 12,
    }
