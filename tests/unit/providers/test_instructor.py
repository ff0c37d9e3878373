from typing import Any

import pytest
from support.lookalikes import error, thing

from demur.providers.normalization import normalize


def completion(**message: Any) -> Any:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
    return thing("openai.types.chat", "ChatCompletion", choices=[choice])


def test_the_assertion_is_read_by_its_words_and_says_how_sure_it_is() -> None:
    refusal = normalize(AssertionError("Unable to generate a response due to I can't help."))

    assert refusal is not None
    assert refusal.code == "MODEL_DECLINED"
    assert refusal.source is not None
    assert refusal.source.confidence == pytest.approx(0.9)


@pytest.mark.parametrize("name", ["InstructorRetryException", "IncompleteOutputException"])
def test_the_last_answer_on_an_exception_may_be_a_refusal(name: str) -> None:
    declined = error(
        "instructor.exceptions", name, "failed", last_completion=completion(refusal="No.")
    )
    plain = error("instructor.exceptions", name, "failed", last_completion=completion())
    refusal = normalize(declined)

    assert refusal is not None
    assert refusal.code == "MODEL_DECLINED"
    assert refusal.source is not None
    assert refusal.source.path == "last_completion.choices[0].message.refusal"
    assert normalize(plain) is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"choices": [{"finish_reason": "content_filter", "message": {}}]}, "FILTERED_UNSPECIFIED"),
        ({"stop_reason": "refusal", "stop_details": {"category": "cyber"}}, "CONTENT_CYBER"),
        ({"stop_reason": "refusal"}, "FILTERED_UNSPECIFIED"),
        ({"stop_reason": "max_tokens"}, None),
    ],
)
def test_the_last_answer_may_have_been_stopped_by_a_filter(answer: Any, code: str | None) -> None:
    raised = error(
        "instructor.exceptions", "IncompleteOutputException", "x", last_completion=answer
    )
    refusal = normalize(raised)

    assert (None if refusal is None else refusal.code) == code


def test_other_assertions_are_no_refusal() -> None:
    assert normalize(AssertionError("expected 3 items")) is None
    assert normalize(ValueError("Unable to generate a response due to a bug")) is None
