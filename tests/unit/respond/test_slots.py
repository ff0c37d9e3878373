from typing import Any

import pytest

from demur.respond.loading import builtin_templates
from demur.respond.slots import fill_slot, fill_text, slot_names
from demur.respond.template import Slot, SlotKind

PHRASES = builtin_templates().by_locale["en"].phrases


def duration(value: object) -> str | None:
    return fill_slot(Slot(SlotKind.DURATION), value, {}, PHRASES)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "1 second"),
        (0.2, "1 second"),
        (12, "12 seconds"),
        (90, "90 seconds"),
        (91, "2 minutes"),
        ("30", "30 seconds"),
        (3600, "60 minutes"),
        (5401, "2 hours"),
        (90000, "25 hours"),
    ],
)
def test_a_wait_is_told_in_the_clearest_unit(seconds: object, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    "value", [0, -1, True, None, "soon", "nan", float("nan"), float("inf"), 10**9, [1]]
)
def test_what_is_no_wait_is_left_out(value: object) -> None:
    assert duration(value) is None


@pytest.mark.parametrize(
    ("slot", "given", "evidence", "value"),
    [
        (Slot(SlotKind.NAME, "tool"), "mine", {"tool": "theirs"}, "mine"),
        (Slot(SlotKind.NAME, "tool"), None, {"tool": "theirs"}, "theirs"),
        (Slot(SlotKind.NAME, "tool"), "a.b", {"tool": "theirs"}, "theirs"),
        (Slot(SlotKind.NAME, "tool"), None, {"other": "x"}, None),
        (Slot(SlotKind.NAME), None, {"tool": "theirs"}, None),
        (Slot(SlotKind.PATH, "target"), None, {"target": "/srv"}, "/srv"),
        (Slot(SlotKind.WORDS, "who"), None, {"who": "a friend"}, "a friend"),
        (Slot(SlotKind.WORDS, "who"), None, {"who": {"x": 1}}, None),
    ],
)
def test_the_caller_fills_a_slot_before_evidence_does(
    slot: Slot, given: object, evidence: dict[str, Any], value: str | None
) -> None:
    assert fill_slot(slot, given, evidence, PHRASES) == value


def test_slots_of_a_text_are_found_and_filled() -> None:
    assert list(slot_names("{a} and {b}")) == ["a", "b"]
    assert fill_text("{a} and {b}", {"a": "{b}", "b": "2"}) == "{b} and 2"


@pytest.mark.parametrize("text", ["{", "}", "{}", "{0}", "{a.b}", "{a!r}", "{a:>9}", "{a[0]}"])
def test_a_brace_that_is_no_slot_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(slot_names(text))
