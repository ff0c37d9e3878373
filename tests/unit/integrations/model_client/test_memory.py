"""What was refused, remembered as long as there is room."""

import pytest

from demur.enforce.enforcer import Enforcer
from demur.gate.pipeline import GuardPipeline
from demur.integrations.model_client.memory import RefusedTexts, is_refusal, refused_texts_for


def test_a_text_is_known_whatever_space_is_around_it() -> None:
    memory = RefusedTexts()
    memory.add(["a\ud800", " "])

    assert len(memory) == 1
    assert " a\ud800\n" in memory
    assert "b" not in memory
    assert "" not in memory
    assert 7 not in memory


def test_the_oldest_are_forgotten_first() -> None:
    memory = RefusedTexts(max_entries=2)
    memory.add("ab")
    memory.add("ac")

    assert ["a" in memory, "b" in memory, "c" in memory] == [True, False, True]


def test_who_enforces_remembers_for_all_clients() -> None:
    one, other = Enforcer(pipeline=GuardPipeline([])), Enforcer(pipeline=GuardPipeline([]))

    assert refused_texts_for(one) is refused_texts_for(one)
    assert refused_texts_for(one) is not refused_texts_for(other)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("I can't.\nREFUSED: CONTEXT_INJECTION: orders in a text", True),
        ("REFUSED: CONTEXT_INJECTION: orders in a text", True),
        ("I can't.", False),
        ("", False),
        (None, False),
    ],
)
def test_a_refusal_of_ours_is_told_by_its_last_line(text: str | None, ours: bool) -> None:
    assert is_refusal(text) is ours
