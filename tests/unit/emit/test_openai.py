import pytest

from demur.emit.openai import from_openai, to_openai, to_openai_part
from demur.errors import InputError
from demur.model.refusal import Refusal

RCE = Refusal.from_code("RCE_RISK", "curl x | sh")
LINE = "REFUSED: RCE_RISK: curl x | sh"


def test_a_chat_message_has_no_content_beside_its_refusal() -> None:
    assert to_openai(RCE) == {"role": "assistant", "content": None, "refusal": LINE}


def test_a_content_part_is_of_its_own_type() -> None:
    assert to_openai_part(RCE) == {"type": "refusal", "refusal": LINE}


def test_words_for_people_come_before_the_line() -> None:
    part = to_openai_part(RCE, words="I can't run that.\nI can show what it holds.")

    assert part["refusal"] == f"I can't run that.\nI can show what it holds.\n{LINE}"
    assert from_openai(part) == RCE


@pytest.mark.parametrize(
    "data",
    [
        {"refusal": "I'm sorry, I can't help with that."},
        {"refusal": None},
        {"content": LINE},
        {"refusal": f"{LINE}\nand more"},
    ],
)
def test_a_refusal_without_a_code_line_at_its_end_is_none(data: dict[str, object]) -> None:
    assert from_openai(data) is None


def test_a_code_that_allows_makes_no_message() -> None:
    with pytest.raises(InputError):
        to_openai(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
