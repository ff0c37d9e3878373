import json
from typing import Any

import pytest

from demur.detect.model import (
    FEATURE_NAMES,
    SCHEMA_VERSION,
    Ground,
    builtin_model,
    extract_features,
    read_model,
    to_chance,
    to_logit,
)
from demur.detect.speech_acts import analyze_answer
from demur.errors import InputError


def document(**changes: Any) -> str:
    weights = dict.fromkeys(FEATURE_NAMES, 0.5)
    fields = {
        "schema_version": SCHEMA_VERSION,
        "thresholds": {"words": 0.5, "learned": 0.5},
        "partial_share": 0.5,
        "calibrations": {key: [0.0, 1.0] for key in (*Ground, "learned")},
        "bias": -1.0,
        "weights": weights,
        **changes,
    }
    return json.dumps(fields)


def test_weights_are_read_by_name_whatever_their_order() -> None:
    weights = {name: float(index) for index, name in enumerate(FEATURE_NAMES)}
    shuffled = dict(reversed(weights.items()))

    assert read_model(document(weights=shuffled)).weights == tuple(
        map(float, range(len(FEATURE_NAMES)))
    )


def test_the_chance_is_even_at_zero_and_never_overflows() -> None:
    model = read_model(document(bias=0.0))

    assert model.refusal_chance([0.0] * len(FEATURE_NAMES)) == 0.5
    assert 0 < model.refusal_chance([-1e9] * len(FEATURE_NAMES)) < 1e-9
    assert model.refusal_chance([1e9] * len(FEATURE_NAMES)) > 1 - 1e-9


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a model"),
        ("[]", "not a model"),
        ('{"weights": 3}', "not a model"),
        (document(bias="much"), "not a model"),
        (document(schema_version="v0"), "unknown schema version `v0`"),
        (document(weights={"first:decline": 1}), "is not in both"),
    ],
)
def test_a_model_that_does_not_fit_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        read_model(text, "mine.json")
    assert caught.value.where == "mine.json"


def test_a_rule_bounds_the_chance_that_the_weights_give() -> None:
    model = read_model(document(bias=0.0))
    low, high = [-9.0] * len(FEATURE_NAMES), [9.0] * len(FEATURE_NAMES)

    assert model.refusal_chance(low, Ground.PLAIN) > model.threshold(learned=False)
    assert model.refusal_chance(high, Ground.IN_PART) < model.threshold(learned=False)
    assert model.refusal_chance(high, Ground.HINT) < model.threshold(learned=False)


def test_the_calibrated_logit_of_a_learned_model_is_added_to_that_of_the_words() -> None:
    model = read_model(document())

    assert model.combine(0.9, 0.1) == pytest.approx(0.5)
    assert model.combine(0.5, 0.99) == pytest.approx(0.99)
    assert model.combine(0.0, 1.0) == pytest.approx(0.5), "neither is so sure that it decides alone"
    calibrations = {key: [0.5, 0.25] for key in (*Ground, "learned")}
    damped = read_model(document(calibrations=calibrations))
    assert damped.combine(0.5, 0.9) == pytest.approx(to_chance(0.5 + to_logit(0.9) / 4))


def test_the_model_that_ships_fits_and_leans_on_plain_refusals() -> None:
    model = builtin_model()
    weights = dict(zip(FEATURE_NAMES, model.weights, strict=True))

    assert weights["first:decline"] > 0
    assert weights["comply_first-refusing"] < 0


def named(text: str, prompt: str | None = None) -> dict[str, float]:
    seen = analyze_answer(text)
    return dict(zip(FEATURE_NAMES, extract_features(seen.answer, seen.acts, prompt), strict=True))


def test_features_distinguish_acts_by_position() -> None:
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


def test_lists_and_questions_become_features() -> None:
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
