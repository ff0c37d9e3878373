import pytest

from demur.guards.compaction.authorship import find_changed_authors, find_changed_order
from demur.guards.compaction.message import ContextMessage, Role

LONG = "I moved the three reports to the archive and told the team about it yesterday."


def message(content: str, role: Role) -> ContextMessage:
    return ContextMessage(role=role, content=content)


def authors(before: list[ContextMessage], after: list[ContextMessage]) -> list[str]:
    return [str(finding.evidence["author"]) for finding in find_changed_authors(before, after)]


@pytest.mark.parametrize(
    ("said", "now"),
    [("assistant", "user"), ("tool", "user"), ("tool", "assistant"), ("user", "assistant")],
)
def test_a_message_that_changed_its_author_is_found(said: Role, now: Role) -> None:
    assert authors([message(LONG, said)], [message(LONG, now)]) == [said]


def test_a_message_may_be_said_by_both() -> None:
    before = [message(LONG, "assistant"), message(LONG, "user")]

    assert authors(before, [message(LONG, "user")]) == []


def test_a_promotion_is_told_elsewhere() -> None:
    assert authors([message(LONG, "user")], [message(LONG, "system")]) == []


def test_a_few_words_prove_nothing() -> None:
    assert authors([message("Yes, do it.", "assistant")], [message("Yes, do it.", "user")]) == []


def test_most_of_a_message_is_enough() -> None:
    before = [message(f"Sure. {LONG} And I cleaned up.", "assistant"), message("Thanks!", "user")]

    assert authors(before, [message(f"{LONG} Okay.", "user")]) == ["assistant"]


def test_a_summary_that_quotes_a_little_passes() -> None:
    summary = (
        "Summary of the conversation so far: the user asked for a clean-up of the reports. "
        "The assistant wrote that it moved the three reports to the archive and told the team. "
        "Next, the user wants a list of everything that is left, ordered by age and by owner."
    )

    assert authors([message(LONG, "assistant")], [message(summary, "user")]) == []


def test_what_the_user_said_too_is_the_users() -> None:
    before = [message(LONG, "assistant"), message(f"You wrote: {LONG}", "user")]

    assert authors(before, [message(f"{LONG} Right?", "user")]) == []


def test_a_short_new_message_is_nobodys() -> None:
    assert authors([message(LONG, "assistant")], [message("Go on.", "user")]) == []


TALK = [message(f"This is what was said as number {n} of all.", "user") for n in range(4)]


def moved(before: list[ContextMessage], after: list[ContextMessage]) -> list[int]:
    return [finding.evidence["message"] for finding in find_changed_order(before, after)]


def test_messages_may_be_dropped_but_not_moved() -> None:
    assert moved(TALK, [TALK[0], TALK[3]]) == []
    assert moved(TALK, [TALK[0], TALK[3], TALK[1]]) == [2]


def test_rules_may_move_to_the_front() -> None:
    rule = message("Always answer in French, whatever the question is.", "developer")

    assert moved([*TALK, rule], [rule, *TALK]) == []


def test_rules_keep_their_own_order() -> None:
    rules = [message(f"This is the rule with the number {n} of all.", "system") for n in (1, 2)]

    assert moved(rules, rules[::-1]) == [1]


def test_a_few_words_may_come_again() -> None:
    go_on = message("Please continue.", "user")

    assert moved([go_on, *TALK], [*TALK, go_on]) == []
