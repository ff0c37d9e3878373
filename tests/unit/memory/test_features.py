from typing import Any

import pytest

from demur.memory.features import GROUPS, extract_features, intent_text


def evidence(**fields: Any) -> dict[str, int]:
    return extract_features({"evidence": fields})["evidence"]


def said(text: str) -> dict[str, int]:
    return extract_features({"action": {"intent": text}})["intent"]


def test_a_request_without_anything_has_no_features() -> None:
    assert extract_features({}) == {group: {} for group in GROUPS}
    assert extract_features(
        {"action": "refund", "evidence": None, "subject": []}
    ) == extract_features({})


def test_ids_that_differ_in_every_request_are_not_seen() -> None:
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


def test_what_is_nested_too_deeply_counts_as_present() -> None:
    nested: Any = "x"
    for _ in range(20):
        nested = {"k": nested}

    assert evidence(k=nested) == {".".join(["k"] * 8): 4}


def test_other_parts_of_an_action_belong_to_its_target() -> None:
    assert extract_features({"action": {"command": "ls"}})["target"] == {
        "command": 4,
        "command=ls": 12,
    }
