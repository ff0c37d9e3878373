import pytest

from demur.guards.compaction.message import ContextMessage, Role
from demur.guards.compaction.pinning import make_pins
from demur.guards.compaction.survival import find_lost_pins
from demur.model.finding import Finding

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


def test_a_rule_that_stands_twice_is_in_order_once() -> None:
    assert lost(BEFORE[1], BEFORE[0], BEFORE[1]) == []


def test_a_rule_within_a_message_is_looked_for_anywhere() -> None:
    rules = ("Ask first.",)

    assert lost(message(f"Ask first. {OTHER}"), *BEFORE[:2], rules=rules) == []
    assert problems(*BEFORE, rules=rules) == ["a pinned rule is gone"]


def test_a_context_that_had_changed_before_is_told() -> None:
    pins = make_pins((message("Another rule."),), roles=("system",))
    [finding] = find_lost_pins(pins, BEFORE, BEFORE)

    assert finding.evidence["in"] == "before"


def test_an_empty_pinned_message_is_found_nowhere() -> None:
    before = (message(""),)
    pins = make_pins(before, roles=("system",))

    assert len(list(find_lost_pins(pins, before, before))) <= 1
