from typing import Any

import pytest
from gates import CORE

from demur.codes.vocabulary import Surface
from demur.gate.answers import answer_for, help_lines, with_resources
from demur.model.finding import Finding
from demur.model.refusal import Refusal


def refusal(code: str, **more: Any) -> Refusal:
    return Refusal.of(code, registry=CORE, **more)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (refusal("CONTENT_CYBER", surface=Surface.INPUT), "I can't help with that."),
        (refusal("OUTPUT_FORBIDDEN", surface=Surface.OUTPUT), "I can't share the answer"),
        (refusal("RATE_LIMIT", evidence={"retry_after": 5.2}), "Please try again in 6 seconds."),
        (refusal("RATE_LIMIT", evidence={"retry_after": 0.3}), "Please try again in 1 second."),
        (refusal("RATE_LIMIT"), "Please try again later."),
        (refusal("GUARDRAIL_UNAVAILABLE"), "I can't check this safely at the moment"),
        (refusal("APPROVAL_REQUIRED"), "Somebody has to look at this"),
    ],
)
def test_each_kind_of_refusal_has_its_words(refused: Refusal, said: str) -> None:
    assert said in answer_for(refused)


@pytest.mark.parametrize("entry", list(CORE), ids=lambda entry: entry.code)
def test_the_words_are_plain_short_and_without_the_code(entry: Any) -> None:
    words = answer_for(refusal(entry.code, detail="the guard's own words"))

    assert len(words) <= 100
    assert entry.code not in words
    assert "own words" not in words


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


def test_somebody_in_danger_is_told_whom_to_call() -> None:
    words = answer_for(refusal("CRISIS_ESCALATION"), ["Samaritans (GB): 116 123"])

    assert "- Samaritans (GB): 116 123" in words
    assert "emergency number" in words
    assert answer_for(refusal("CRISIS_ESCALATION"), ["emergency: 112"]).count("emergency") == 1


def test_lines_can_stand_below_an_answer() -> None:
    assert with_resources("Hello.", []) == "Hello."
    assert with_resources("Hello.", ["a line"]) == "Hello.\n\n- a line"
