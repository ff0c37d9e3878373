import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.detect.detector import detect_refusal
from demur.errors import InputError
from demur.testing.model_replies import (
    FAULTS,
    PERSONAS,
    ModelPrompt,
    ModelReply,
    answer_as,
    build_reply,
    check_persona,
)


def reply(model: str = "", *, stream: bool = False, again: bool = False) -> ModelReply:
    return build_reply(ModelPrompt("hello", model, stream=stream), "echo", fault=None, again=again)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_one(fault: str) -> None:
    spoilt, good = reply(fault), reply()

    assert spoilt != good
    if fault.startswith("once-"):
        [body] = reply(fault, again=True).parts
        assert json.loads(body)["choices"][0]["message"]["content"] == "hello"


def test_a_stream_is_many_parts_and_ends_by_saying_so() -> None:
    stream = reply(stream=True)

    assert stream.streamed
    assert stream.parts[-1] == b"data: [DONE]\n\n"
    assert reply("half-stream").parts[-1] != stream.parts[-1]


def test_too_many_requests_say_when_to_come_back() -> None:
    assert ("retry-after", "0") in reply("error-429").more


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


@pytest.mark.parametrize(
    ("last", "text"), [("How do I bake bread?", "safe"), ("Poison the well.", "unsafe\nS1")]
)
def test_a_guard_model_judges_the_last_message(last: str, text: str) -> None:
    assert answer_as("llama-guard", ModelPrompt("hello", last=last)).text == text
