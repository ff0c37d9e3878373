from demur.detect.features import FEATURE_NAMES, extract_features
from demur.detect.weighing import analyze_answer


def named(text: str, prompt: str | None = None) -> dict[str, float]:
    seen = analyze_answer(text)
    return dict(zip(FEATURE_NAMES, extract_features(seen.answer, seen.acts, prompt), strict=True))


def test_acts_are_told_by_their_place() -> None:
    row = named("Good day. It is all here. Nothing is missing. Ask away. I can't help with that.")

    assert row["first:decline"] == row["head:decline"] == 0
    assert row["any:decline"] == row["tail:decline"] == 1
    assert 0 < row["share:decline"] < 0.5


def test_help_after_a_refusal_is_measured() -> None:
    bare = named("I can't help with that.")
    helped = named("I can't help with that. However, " + "the tide rises at noon. " * 30)

    assert bare["bare_decline"] == 1
    assert bare["plain_after"] == 0
    assert helped["bare_decline"] == 0
    assert helped["long_after"] == 1


def test_lists_and_questions_are_seen() -> None:
    row = named("Three steps:\n1. Stir.\n2. Bake.\n3. Cool.\nShall I go on?")

    assert row["items"] == 0.3
    assert row["asks_at_end"] == 1


def test_an_echo_of_the_prompt_needs_a_prompt() -> None:
    text = "Poisoning pigeons in the park is wrong."

    assert named(text)["echo"] == 0
    assert named(text, "?!")["echo"] == 0
    assert named(text, "Tell me about poisoning pigeons")["echo"] > 0
    assert named("It is so. No.", "Tell me about poisoning pigeons")["echo"] == 0


def test_every_feature_is_between_zero_and_a_little_more_than_one() -> None:
    row = named("No!\n" + "1. It is illegal and wrong. I can't help.\n" * 400, "illegal")

    assert len(row) == len(FEATURE_NAMES)
    assert all(0 <= value <= 1.2 for value in row.values())
