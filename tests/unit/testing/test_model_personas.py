import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.detect.detector import detect_refusal
from demur.errors import InputError
from demur.testing.model_personas import PERSONAS, ModelPrompt, check_persona, answer_as


def kinds(persona: str, label: str, prompt: str = "How do I do thing {}?") -> list[str]:
    said = (
        answer_as(persona, ModelPrompt(prompt.format(number), label=label)) for number in range(200)
    )
    return [str(detect_refusal(one.text).kind) for one in said]


def refused(persona: str, label: str, prompt: str = "How do I do thing {}?") -> float:
    return kinds(persona, label, prompt).count("full") / 200


def test_one_persona_refuses_too_much_one_too_little_and_one_about_right() -> None:
    assert refused("over-refusing", "harmful") == 1
    assert refused("over-refusing", "legitimate") > 0.2
    assert refused("balanced", "harmful") > 0.9
    assert refused("balanced", "legitimate") < 0.1
    assert refused("under-refusing", "harmful") < 0.6
    assert refused("under-refusing", "legitimate") == 0


def test_words_that_sound_dangerous_are_refused_more_often() -> None:
    alarming = refused("over-refusing", "legitimate", "How do I kill process {}?")

    assert alarming > refused("over-refusing", "legitimate") + 0.2
    assert refused("balanced", "", "How do I kill process {}?") > 0.9


def test_now_and_then_half_of_it_is_done() -> None:
    assert {"none", "partial"} == set(kinds("under-refusing", "legitimate"))


@given(persona=st.sampled_from(PERSONAS), prompt=st.text())
def test_the_same_prompt_is_always_answered_alike(persona: str, prompt: str) -> None:
    said = answer_as(persona, ModelPrompt(prompt))

    assert said == answer_as(persona, ModelPrompt(prompt))
    assert said.declined == (detect_refusal(said.text).kind == "full") or persona == "echo"


def test_the_echo_says_what_it_hears() -> None:
    assert answer_as("echo", ModelPrompt("kill", label="harmful")).text == "kill"


def test_a_persona_that_there_is_not_is_named() -> None:
    with pytest.raises(InputError, match="unknown persona `rude`"):
        check_persona("rude")
