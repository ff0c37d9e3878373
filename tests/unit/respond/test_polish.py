from collections.abc import Callable

import pytest

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import Verdict
from demur.model.refusal import Refusal
from demur.respond.compose import compose
from demur.respond.graceful import GracefulRefusal, RewordResult

SOURCE = Refusal.from_code("TOOL_NOT_ALLOWED", evidence={"tool": "send_email"})
GOOD = "Happy to help otherwise: send_email isn't open for this yet. Shall I draft it for you?"


def no_problem(_text: str, _source: object) -> list[str]:
    return []


def polish(reword: Callable[[GracefulRefusal], str]) -> GracefulRefusal:
    return compose(SOURCE, polish=reword, check=no_problem)


def test_words_that_keep_every_fact_are_taken() -> None:
    words = polish(lambda _: GOOD)

    assert words.text == GOOD
    assert words.polish == RewordResult(accepted=True)
    assert words.boundary == compose(SOURCE).boundary


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Shall I draft it?", "leaves out `send_email`"),
        (f"{GOOD} TOOL_NOT_ALLOWED", "shows the code `TOOL_NOT_ALLOWED`"),
        ("", "no text"),
        (None, "no text"),
        (GOOD * 30, "much longer"),
    ],
)
def test_words_that_lose_something_are_not(text: str, problem: str) -> None:
    words = polish(lambda _: text)

    assert words.text == compose(SOURCE).text
    assert words.polish is not None
    assert not words.polish.accepted
    assert problem in words.polish.problems[0]


def test_words_that_the_check_objects_to_are_not() -> None:
    def check(text: str, source: object) -> list[str]:
        assert (text, source) == (GOOD, SOURCE)
        return ["too\nloud"]

    words = compose(SOURCE, polish=lambda _: GOOD, check=check)

    assert words.text == compose(SOURCE).text
    assert words.polish == RewordResult(accepted=False, problems=("too\\nloud",))


def test_a_model_that_fails_changes_nothing() -> None:
    def fails(_: GracefulRefusal) -> str:
        raise ConnectionError

    words = polish(fails)

    assert words.text == compose(SOURCE).text
    assert words.polish is not None
    assert words.polish.problems == ("the rewording failed: ConnectionError",)


def test_help_lines_and_lists_are_facts() -> None:
    crisis = Refusal.from_code("CRISIS_ESCALATION")
    missing = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])

    assert compose(crisis, resources=["call 988"]).facts == ("call 988",)
    assert compose(missing).facts == ("order number",)


def test_an_operator_sees_the_polished_words_too() -> None:
    words = compose(SOURCE, audience="operator", polish=lambda _: GOOD, check=no_problem)

    assert words.text.startswith(GOOD)
