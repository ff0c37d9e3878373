import json
from typing import Any

import pytest

from demur.detect.features import FEATURE_NAMES
from demur.detect.model import SCHEMA_VERSION, builtin_model, read_model
from demur.errors import InputError


def document(**changes: Any) -> str:
    weights = dict.fromkeys(FEATURE_NAMES, 0.5)
    fields = {"schema_version": SCHEMA_VERSION, "bias": -1.0, "weights": weights, **changes}
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


def test_the_model_that_ships_fits_and_leans_on_plain_refusals() -> None:
    model = builtin_model()
    weights = dict(zip(FEATURE_NAMES, model.weights, strict=True))

    assert weights["first:decline"] > 0
    assert weights["comply_first-refusing"] < 0
