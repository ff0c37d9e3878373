from typing import Any

import pytest

from demur.respond.slots import (
    choose_help_lines,
    clean_line,
    clean_name,
    clean_path,
    clean_phrase,
    fill_slot,
    fill_text,
    format_help_line,
    readable_name,
    slot_names,
)
from demur.respond.template import Slot, SlotKind
from demur.respond.template_file import builtin_templates

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
def test_a_wait_is_stated_in_the_clearest_unit(seconds: object, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    "value", [0, -1, True, None, "soon", "nan", float("nan"), float("inf"), 10**9, [1]]
)
def test_an_invalid_wait_is_left_out(value: object) -> None:
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
def test_a_brace_that_is_not_a_slot_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(slot_names(text))


@pytest.mark.parametrize(
    "text",
    [
        "your neighbour",
        "Ärztin (Köln)",
        "la dueña, 24",
        "近所の人",
        "आपके पड़ोसी",
        "O\N{RIGHT SINGLE QUOTATION MARK}Neil & Co",
    ],
)
def test_a_phrase_of_any_script_passes(text: str) -> None:
    assert clean_phrase(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "- item",
        "see https://x",
        "x//y",
        "Jane Roe 123-45-6789",
        "call 030 123456",
        "AKIAIOSFODNN7EXAMPLE",
        "done. Now go",
        "really?",
        "a [link](x)",
        "{slot}",
        "x" * 81,
        "x" * 10**6,
        "z" + "\u0301\u0302\u0303\u0304\u0305",
        "a\u202eb",
        7,
        None,
    ],
)
def test_an_unsafe_phrase_is_left_out(text: object) -> None:
    assert clean_phrase(text) is None


def test_a_name_is_not_a_sentence() -> None:
    assert clean_name("web search tool") == "web search tool"
    assert clean_name("send all your money to me") is None


def test_white_space_and_split_letters_become_plain() -> None:
    assert clean_phrase(" at\n my\tdesk ") == "at my desk"
    assert clean_phrase("Jose\u0301") == "José"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("send_email", True),
        ("web search", True),
        ("fs.read", False),
        ("_x_", False),
        ("x" * 61, False),
        (3, False),
    ],
)
def test_a_name_holds_letters_digits_and_joints(text: object, kept: bool) -> None:
    assert (clean_name(text) == text) is kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/srv/data", True),
        ("~/notes.txt", True),
        ("./a b", True),
        ("C:/Temp", True),
        ("evil.example/x", False),
        ("//evil.example", False),
        ("/www.evil.example", False),
        ("/a\nb", False),
        ("/" + "x" * 120, False),
        (b"/x", False),
    ],
)
def test_a_path_begins_like_one(text: object, kept: bool) -> None:
    assert (clean_path(text) == text) is kept


def test_any_value_becomes_one_harmless_line() -> None:
    assert (
        clean_line("- *at most* `250` USD\nsee www.evil.example")
        == "at most 250 USD see www evil example"
    )
    assert clean_line("mail a@b.example, https://x") == "mail a b example, https //x"
    assert clean_line("costs 2.50") == "costs 2.50"
    assert clean_line("x" * 500) == "x" * 159 + "…"
    assert clean_line(None) == "None"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("evidence.ticket_id", "ticket number"),
        ("dry_run", "a dry run"),
        ("evidence.receipt_scan", "receipt scan"),
        ("at most 250 USD", "at most 250 USD"),
        ("amount ≤ 250", "amount ≤ 250"),
    ],
)
def test_fields_and_limits_are_called_as_people_call_them(value: str, said: str) -> None:
    known = {"ticket_id": "ticket number", "dry_run": "a dry run"}

    assert readable_name(value, known, trusted=True) == said


def test_words_nobody_vouches_for_must_be_plain() -> None:
    assert readable_name("a receipt", {}, trusted=False) == "a receipt"
    assert readable_name("Ask an admin. Now!", {}, trusted=False) == ""


@pytest.mark.parametrize(
    ("resource", "shown"),
    [
        (
            {"name": "Samaritans", "contact": "call 116 123", "country": "GB"},
            "Samaritans (GB): call 116 123",
        ),
        (
            {"name": "Find A Helpline", "contact": "https://findahelpline.com"},
            "Find A Helpline: https://findahelpline.com",
        ),
        ("call 988", "call 988"),
        ("a\n[b](x) <i>", "a b (x) i"),
        ({}, ""),
        (7, ""),
        ("x" * 900, "x" * 200),
    ],
)
def test_a_place_that_helps_is_one_line(resource: object, shown: str) -> None:
    assert format_help_line(resource) == shown


def test_lines_that_were_named_stand_for_the_usual_ones_each_once() -> None:
    assert choose_help_lines(["call 988", "call 988", {}, 3], ["usual"]) == ("call 988",)
    assert choose_help_lines([], ["usual"]) == ("usual",)
    assert len(choose_help_lines(map(str, range(50)), [])) == 8
