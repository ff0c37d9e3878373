from typing import Any

import pytest
from gates import CORE

from demur.codes.vocabulary import Surface
from demur.enforce.answers import refusal_text, help_lines, append_resources
from demur.model.finding import Finding
from demur.model.refusal import Refusal
from demur.respond.lint import lint_refusal


def refusal(code: str, **more: Any) -> Refusal:
    return Refusal.from_code(code, registry=CORE, **more)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (refusal("CONTENT_CYBER", surface=Surface.INPUT), "harden a system of your own"),
        (refusal("OUTPUT_FORBIDDEN", surface=Surface.OUTPUT), "what I was about to say"),
        (refusal("RATE_LIMIT", evidence={"retry_after": 5.2}), "6 seconds"),
        (refusal("RATE_LIMIT"), "more came in than I can handle"),
        (refusal("GUARDRAIL_UNAVAILABLE"), "can't answer safely at the moment"),
        (refusal("APPROVAL_REQUIRED"), "person in charge"),
    ],
)
def test_each_kind_of_refusal_has_its_words(refused: Refusal, said: str) -> None:
    assert said in refusal_text(refused)


def test_the_words_are_in_the_language_of_the_locale() -> None:
    assert refusal_text(refusal("CONTENT_CYBER"), locale="de-AT").startswith("Ich verstehe")
    assert refusal_text(refusal("CONTENT_CYBER"), locale="xx").startswith("I ")


@pytest.mark.parametrize(
    "entry", [entry for entry in CORE if entry.refusal_class], ids=lambda entry: entry.code
)
def test_the_words_are_graceful_and_without_the_code(entry: Any) -> None:
    words = refusal_text(refusal(entry.code, detail="what the guard wrote"))

    assert entry.code not in words
    assert "guard wrote" not in words
    if entry.code != "CRISIS_ESCALATION":
        assert lint_refusal(words, entry.code).problems == ()


def crisis(**evidence: Any) -> Finding:
    return Finding(code="CRISIS_ESCALATION", surface=Surface.INPUT, evidence=evidence)


def test_nobody_in_danger_no_lines() -> None:
    assert help_lines([Finding(code="RCE_RISK", surface=Surface.INPUT)]) == ()


def test_the_lines_are_those_the_guard_names() -> None:
    named = [{"name": "Samaritans", "contact": "116 123", "country": "GB"}, "a friend", 3]

    assert help_lines([crisis(resources=named)]) == ("Samaritans (GB): 116 123", "a friend")


@pytest.mark.parametrize("given", [{}, {"resources": None}, {"resources": []}])
def test_where_it_names_none_they_are_those_of_the_locale(given: dict[str, Any]) -> None:
    lines = help_lines([crisis(**given)], locale="en-US")

    assert any("988" in line for line in lines)
    assert help_lines([], ["crisis_resources"], "en-US") == lines


@pytest.mark.parametrize("code", ["CRISIS_ESCALATION", "CONTENT_WEAPONS"])
def test_somebody_in_danger_is_told_whom_to_call_whatever_else_was_refused(code: str) -> None:
    words = refusal_text(refusal(code), ["Samaritans (GB): 116 123"])

    assert "- Samaritans (GB): 116 123" in words
    assert "emergency number" in words
    assert "weapon" not in words
    assert refusal_text(refusal(code), ["emergency: 112"]).count("emergency") == 1


def test_lines_can_stand_below_an_answer() -> None:
    assert append_resources("Hello.", []) == "Hello."
    assert append_resources("Hello.", ["a line"]) == "Hello.\n\n- a line"
