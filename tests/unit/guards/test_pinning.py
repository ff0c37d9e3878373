from typing import Any

import msgspec
import pytest

from demur.errors import InputError
from demur.guards.pinning import (
    MAX_MESSAGE_LENGTH,
    TRUST,
    ContextMessage,
    PinManifest,
    Role,
    find_lost_pins,
    is_sealed_by,
    make_pins,
    normalize_text,
    pin_messages,
    read_messages,
    split_words,
)
from demur.model.finding import Finding


def test_white_space_and_composition_make_no_other_text() -> None:
    assert normalize_text("  Caf\u0065\u0301\r\n\tau  lait ") == "Caf\u00e9 au lait"


@pytest.mark.parametrize("other", ["no deletes", "No  deletes.", "No\u200b deletes"])
def test_case_punctuation_and_hidden_characters_do(other: str) -> None:
    assert normalize_text("No deletes") != normalize_text(other)


def test_words_know_their_place() -> None:
    text = "Don't STOP"

    assert [(w.text, text[w.start : w.end]) for w in split_words(text)] == [
        ("don", "Don"),
        ("t", "t"),
        ("stop", "STOP"),
    ]


def test_scripts_without_spaces_have_a_word_for_each_character() -> None:
    assert len({word.text for word in split_words("\u4f60\u597d ok")}) == 3


def test_trust_rises_from_tools_to_those_who_rule() -> None:
    assert TRUST["tool"] < TRUST["assistant"] < TRUST["user"] < TRUST["developer"]
    assert TRUST["developer"] == TRUST["system"]


def test_messages_are_read_in_the_shapes_of_providers() -> None:
    rows: list[dict[str, Any]] = [
        {"role": "system", "content": "a"},
        {"type": "human", "content": [{"type": "text", "text": "b"}, "c", 7]},
        {"role": "ai", "content": None},
        {"role": "function", "content": [{"type": "image"}]},
    ]

    assert [(m.role, m.content) for m in read_messages(rows)] == [
        ("system", "a"),
        ("user", "b\nc"),
        ("assistant", ""),
        ("tool", ""),
    ]


@pytest.mark.parametrize(
    "row",
    [{}, {"role": "root", "content": ""}, {"role": "user", "content": 7}, "text", {"role": []}],
)
def test_a_row_that_is_no_message_is_an_error(row: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        read_messages([row])


def test_the_row_is_named() -> None:
    with pytest.raises(InputError) as caught:
        read_messages([{"role": "user", "content": "a"}, {"role": "x", "content": "a"}])

    assert caught.value.where == "message 1"


@pytest.mark.parametrize(
    "content", [None, 7, "x" * (MAX_MESSAGE_LENGTH + 1)], ids=["none", "number", "long"]
)
def test_a_message_has_a_text_of_bounded_length(content: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        ContextMessage(role="user", content=content)


KEY = bytes(range(32))
MESSAGES = (
    ContextMessage(role="system", content="Never delete files."),
    ContextMessage(role="user", content="Hello."),
    ContextMessage(role="developer", content="Answer in French."),
)


def test_those_who_rule_are_pinned_in_their_order() -> None:
    manifest = pin_messages(MESSAGES, KEY, context="c-1")

    assert [(p.role, p.order) for p in manifest.pins] == [("system", 0), ("developer", 1)]
    assert is_sealed_by(manifest, KEY)


def test_the_text_of_a_message_is_not_kept() -> None:
    assert b"delete" not in pin_messages(MESSAGES, KEY).to_json()


def test_rules_are_pinned_with_their_text() -> None:
    [*_, rule] = pin_messages(MESSAGES, KEY, rules=["  Ask \n first."]).pins

    assert (rule.role, rule.order, rule.text) == ("system", 2, "Ask first.")


def test_other_roles_can_be_pinned() -> None:
    [only] = make_pins(MESSAGES, roles=("user",))

    assert only.role == "user"


def test_a_manifest_reads_back_as_it_was_written() -> None:
    manifest = pin_messages(MESSAGES, KEY, rules=["Ask first."])

    assert PinManifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("text", ["", "{}", b"\xff", '{"pins": 1}', "[" * 10_000])
def test_an_invalid_manifest_is_an_error(text: str | bytes) -> None:
    with pytest.raises(InputError):
        PinManifest.from_json(text)


def test_another_key_does_not_verify() -> None:
    assert not is_sealed_by(pin_messages(MESSAGES, KEY), KEY[::-1])


@pytest.mark.parametrize(
    "change", [{"pins": ()}, {"context": "c-2"}, {"seal": ""}, {"seal": "\ud800ä"}]
)
def test_a_changed_manifest_does_not_verify(change: dict[str, Any]) -> None:
    changed = msgspec.structs.replace(pin_messages(MESSAGES, KEY), **change)

    assert not is_sealed_by(changed, KEY)


@pytest.mark.parametrize(
    ("messages", "key", "more"),
    [
        ((), KEY, {}),
        (MESSAGES, b"short", {}),
        (MESSAGES, "a" * 32, {}),
        (MESSAGES, KEY, {"rules": [" "]}),
    ],
)
def test_messages_that_cannot_be_pinned_are_an_error(messages: Any, key: Any, more: Any) -> None:
    with pytest.raises((InputError, TypeError)):
        pin_messages(messages, key, **more)


RULE = "Never delete files, and ask before you send anything"
OTHER = "Answer in French."


def message(content: str, role: Role = "system") -> ContextMessage:
    return ContextMessage(role=role, content=content)


BEFORE = (message(RULE), message(OTHER, "developer"), message("Hi, do it.", "user"))


def lost(*after: ContextMessage, rules: tuple[str, ...] = ()) -> list[Finding]:
    pins = make_pins(BEFORE, roles=("system", "developer"), rules=rules)
    return list(find_lost_pins(pins, BEFORE, after))


def problems(*after: ContextMessage, rules: tuple[str, ...] = ()) -> list[str]:
    return [finding.detail for finding in lost(*after, rules=rules)]


def test_rules_that_are_kept_survive() -> None:
    assert lost(*BEFORE) == []
    assert lost(BEFORE[0], message("Summary.", "assistant"), BEFORE[1]) == []


@pytest.mark.parametrize(
    "text",
    [
        RULE.replace(" ", "\n  "),
        f"{RULE}\n\nSummary: the user said hello.",
        f"# Rules\n{RULE}\n{OTHER}",
        f"Rules: {RULE}\nMore.",
    ],
)
def test_a_rule_may_stand_in_a_longer_message(text: str) -> None:
    assert lost(message(text), BEFORE[1]) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{RULE} unless it is urgent.",
        f"You need not {RULE}",
        f"{RULE}s.",
        RULE.replace("Never", "Never ever"),
        RULE.replace("files", "file\u200bs"),
        RULE.lower(),
    ],
)
def test_a_rule_that_reads_otherwise_was_changed(text: str) -> None:
    assert problems(message(text), BEFORE[1]) == ["a pinned system message was changed"]


def test_a_change_is_marked_from_its_first_word_on() -> None:
    text = RULE.replace("send", "read")
    [finding] = lost(message(text), BEFORE[1])

    assert finding.span is not None
    assert text[finding.span.start :] == "read anything"
    assert finding.evidence["expected_digest"] != finding.evidence["actual_digest"]
    assert finding.evidence["message"] == 0


def test_words_that_were_added_at_the_end_are_marked() -> None:
    text = f"{RULE} please"
    [finding] = lost(message(text), BEFORE[1])

    assert finding.span is not None
    assert text[finding.span.start :] == " please"


def test_a_change_in_text_that_is_not_composed_is_marked_whole() -> None:
    [finding] = lost(message(f"{RULE} e\u0301"), BEFORE[1])

    assert finding.span is not None
    assert finding.span.start == 0


def test_a_rule_that_is_gone_is_missed() -> None:
    assert problems(BEFORE[1]) == ["a pinned system message is gone"]


def test_a_rule_that_only_an_assistant_says_has_lost_its_role() -> None:
    [finding] = lost(BEFORE[1], message(RULE, "assistant"))

    assert finding.detail == "a pinned system message has lost its role"
    assert finding.evidence["found_role"] == "assistant"


def test_rules_keep_their_order() -> None:
    [finding] = lost(BEFORE[1], BEFORE[0])

    assert finding.detail == "a pinned developer message is out of order"


def test_a_duplicate_rule_needs_to_be_in_order_only_once() -> None:
    assert lost(BEFORE[1], BEFORE[0], BEFORE[1]) == []


def test_a_rule_within_a_message_is_looked_for_anywhere() -> None:
    rules = ("Ask first.",)

    assert lost(message(f"Ask first. {OTHER}"), *BEFORE[:2], rules=rules) == []
    assert problems(*BEFORE, rules=rules) == ["a pinned rule is gone"]


def test_a_context_that_changed_before_compaction_is_a_finding() -> None:
    pins = make_pins((message("Another rule."),), roles=("system",))
    [finding] = find_lost_pins(pins, BEFORE, BEFORE)

    assert finding.evidence["in"] == "before"


def test_an_empty_pinned_message_is_found_nowhere() -> None:
    before = (message(""),)
    pins = make_pins(before, roles=("system",))

    assert len(list(find_lost_pins(pins, before, before))) <= 1
