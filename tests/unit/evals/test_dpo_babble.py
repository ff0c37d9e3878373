import pytest
from eval_runs import NO, PART, YES

from demur.evals.dpo_babble import is_degenerate
from demur.evals.remediate_words import graceful_refusal, helpful_template


@pytest.mark.parametrize(
    "text",
    [
        "with the says with the says with the says with the says with the says with the says",
        "a" * 60,
        "Yes\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd\t\ufffd",
        "Sure. " * 20,
        "はい、そうです。" * 12,
    ],
)
def test_what_only_repeats_itself_is_babble(text: str) -> None:
    assert is_degenerate(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No. No. No.",
        "???",
        "x = {key: [(a, b) for a, b in pairs(value)] for key, value in items.items()}",
        NO,
        YES,
        PART,
        helpful_template("Count the boxes."),
        graceful_refusal("CONTENT_PRIVACY"),
        graceful_refusal("CONTENT_CYBER", "ja"),
    ],
)
def test_what_says_something_is_not(text: str) -> None:
    assert not is_degenerate(text)
