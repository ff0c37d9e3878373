from typing import Any

import pytest

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import Advice, Surface, Verdict
from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.respond.audience import Audience
from demur.respond.compose import compose, render
from demur.respond.graceful import FiveParts

DELETE = Refusal.from_code(
    "DESTRUCTIVE_ACTION", "rm -rf /srv/data", evidence={"target": "/srv/data", "command": "rm"}
)


def test_five_parts_and_a_way_on() -> None:
    words = compose(DELETE)

    assert words.text == (
        "I see you'd like /srv/data gone. I can't run a step that removes /srv/data for good, "
        "because nothing could bring it back.\n"
        "I can list what would be deleted, move it to a folder you can empty later, or make a "
        "copy first. Which would you like?"
    )
    assert words.parts == FiveParts(
        acknowledgment="I see you'd like /srv/data gone.",
        boundary="I can't run a step that removes /srv/data for good.",
        reason="Nothing could bring it back.",
        alternatives=(
            "list what would be deleted",
            "move it to a folder you can empty later",
            "make a copy first",
        ),
        engagement="Which would you like?",
    )
    assert words.what_can_be_done_now.startswith("I can list what would be deleted, ")
    assert words.how_to_proceed.startswith("Tell me what you want to achieve")
    assert words.next_step is Advice.CHANGE_REQUEST
    assert words.line == "REFUSED: DESTRUCTIVE_ACTION: rm -rf /srv/data"
    assert (words.locale, words.template, words.audience) == ("en", "destructive", "end_user")
    assert str(words) == render(DELETE) == words.text


def test_a_workflow_block_names_what_is_missing_as_a_checklist() -> None:
    decided = make_decision(
        Verdict.ESCALATE,
        ["MISSING_EVIDENCE_REFUND"],
        missing=["evidence.ticket_id", "evidence.receipt_scan", "evidence.ticket_id2"],
    )
    words = compose(decided)

    assert "What's still needed:\n- ticket number\n- receipt scan\n- ticket id2\n\n" in words.text
    assert words.text.endswith("Can you send me that, or tell me who could?")
    assert words.what_can_be_done_now == (
        "What's still needed: ticket number, receipt scan, ticket id2"
    )


def test_a_soft_block_states_the_limits_that_make_it_possible() -> None:
    decided = make_decision(
        Verdict.DENY, ["DESTRUCTIVE_ACTION"], constraints=["dry_run", "≤ 5 files"]
    )
    words = compose(decided, locale="de")

    assert (
        "In diesen Grenzen ist es möglich:\n"
        "- zuerst ein Probelauf, nichts wird verändert\n- ≤ 5 files\n"
    ) in words.text
    assert words.next_step is Advice.ACCEPT_CONSTRAINTS


def test_what_runs_within_limits_says_so() -> None:
    decided = make_decision(Verdict.ALLOW, ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])

    assert render(decided).endswith("Shall I start?")


def test_somebody_in_need_is_met_with_warmth_and_help_first() -> None:
    seen = Refusal.from_code("CRISIS_ESCALATION")
    given = ["call 988", {"name": "A", "contact": "1"}]
    first, listed, last = render(seen, resources=given).split("\n\n")

    assert first.startswith("I'm really glad you told me")
    assert listed == "These people are there to listen:\n- call 988\n- A: 1"
    assert last.endswith("Are you safe right now?")
    assert "findahelpline" in render(Refusal.from_code("CRISIS_ESCALATION"))


@pytest.mark.parametrize("code", ["CRISIS_ESCALATION", "CONTENT_SELF_HARM"])
def test_nobody_in_need_is_sent_where_a_strangers_refusal_says(code: str) -> None:
    stranger = Refusal.from_code(
        code, evidence={"resources": ["Crisis line: https://evil.example/pay"]}
    )

    words = render(stranger)

    assert "evil" not in words
    assert words == render(Refusal.from_code(code))


def test_common_branches_do_not_touch_the_words_for_somebody_in_need() -> None:
    seen = Refusal.from_code("CRISIS_ESCALATION", surface=Surface.OUTPUT)

    assert render(seen, slots={"concern": "money"}) == render(
        Refusal.from_code("CRISIS_ESCALATION")
    )


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        (
            {"alternative": "draft a note to the landlord"},
            "I can draft a note to the landlord, help you write down what happened",
        ),
        (
            {"alternative": "draft a note", "goal": "get some quiet"},
            "I can draft a note to help you get some quiet, help you write",
        ),
        ({"concern": "the noise at night"}, "you're worried about the noise at night. I can't"),
        ({"target": "your neighbour"}, "looking into your neighbour without their knowledge"),
        ({}, "looking into someone without their knowledge"),
        ({"concern": "x. Do it now!"}, "I understand you'd like to know"),
    ],
)
def test_branches_follow_what_is_known(slots: dict[str, Any], said: str) -> None:
    assert said in render(Refusal.from_code("CONTENT_PRIVACY"), slots=slots)


def test_a_concern_and_an_alternative_go_together() -> None:
    slots = {"concern": "the noise", "alternative": "draft a note"}
    text = render(Refusal.from_code("CONTENT_PRIVACY"), slots=slots)

    assert text.startswith("It sounds like you're worried about the noise.")
    assert "I can draft a note, " in text
    assert text.endswith("Would that get you where you want to be?")


def test_an_answer_that_was_held_back_is_acknowledged() -> None:
    text = render(Refusal.from_code("CONTENT_CYBER", surface=Surface.OUTPUT))

    assert text.startswith("I see what you're after, and I had started on an answer.")


def test_the_persona_keeps_its_name() -> None:
    source = Refusal.from_code("JAILBREAK_WRAPPER")

    assert render(source, persona="Milo").startswith("I'm Milo, I see the set-up, and")
    assert "Milo" not in render(source, persona="Milo {x}")


def test_a_wait_is_told_in_the_language_of_the_reader() -> None:
    source = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 12.2})

    assert "for 13 seconds," in render(source)
    assert "in 13 Sekunden annehmen" in render(source, locale="de-AT")
    assert "あと13秒は" in render(source, locale="ja")


def test_japanese_joins_the_reason_in_its_own_order() -> None:
    words = compose(Refusal.from_code("CONTENT_WEAPONS"), locale="ja")

    assert words.text == (
        "この分野に関心があるのですね。人の命に関わるため、武器の作り方や入手方法はお伝えできません。\n"
        "歴史や法律の説明、または物理や化学の一般的な説明ならできます。"
        "関心を持ったきっかけは何ですか\N{FULLWIDTH QUESTION MARK}"
    )
    assert words.reason == "人の命に関わる。"


def test_an_agent_reads_the_line_first_and_then_what_to_do() -> None:
    words = compose(DELETE, audience="agent")
    lines = words.text.splitlines()

    assert lines[0] == words.line
    assert "advice: change_request" in lines
    assert "retry_scope: call" in lines
    assert words.audience is Audience.AGENT


def test_an_operator_reads_words_and_facts() -> None:
    text = render(DELETE, audience="operator")

    assert text.startswith(render(DELETE))
    assert 'evidence: {"target":"/srv/data","command":"rm"}' in text


def test_unknown_slots_are_told() -> None:
    with pytest.raises(InputError, match="unknown slot `concen`") as caught:
        compose(DELETE, slots={"concen": "x"})

    assert caught.value.help == "did you mean `concern`?"
    with pytest.raises(InputError) as caught:
        compose(DELETE, slots={"zzz": "x"})
    assert caught.value.help is not None
    assert caught.value.help.startswith("one of alternative, approver")


def test_words_are_only_reworded_under_a_check() -> None:
    with pytest.raises(InputError, match="under a `check`"):
        compose(DELETE, polish=str)


def test_at_most_a_dozen_things_are_listed_and_each_once() -> None:
    named = [f"field_{chr(97 + n)}" for n in range(20)]
    decided = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=named)

    assert len(compose(decided).missing) == 12


def test_what_cannot_be_named_is_still_counted() -> None:
    source = Refusal.from_code(
        "CONTEXT_MISSING", evidence={"missing": ["[x](https://y)", "order_id"]}
    )

    assert compose(source).missing == ("one more detail", "order number")
