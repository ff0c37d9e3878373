"""What holds for any trained guard, whatever its rows and its weights."""

import io
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import InputError
from demur.evals.rates import make_rate, upper_bound
from demur.model.finding import Action
from demur.scorers.trained import (
    FEATURE_COUNT,
    GuardCard,
    GuardWeights,
    TrainedClassifier,
    find_features,
    read_guard_file,
    write_guard_file,
)

training = pytest.importorskip("demur.evals.guard_training", exc_type=ImportError)

CARD = GuardCard(
    name="any",
    code="TOPIC_DENIED",
    action=Action.ESCALATE,
    threshold=0.5,
    max_false_holds=0.05,
    confidence=0.95,
    hold_rows=1,
    allow_rows=1,
    allow_groups=1,
    rows_digest="",
    l2=0.1,
    folds=2,
    seed=0,
)
numbers = st.floats(-1e6, 1e6)
texts = st.text(max_size=200)


@given(st.integers(0, 200), st.integers(1, 200), st.floats(0.001, 0.9))
def test_a_model_that_holds_no_more_than_it_may_wrongly_is_refused(
    hits: int, total: int, rate: float
) -> None:
    # INVARIANT: a model that may be no better than chance is never written.
    recall = make_rate(min(hits, total), total)
    with suppress(InputError):
        training.check_recall(recall, rate, "rows")
        assert recall.value is not None
        assert recall.value > rate


@given(texts, texts, st.lists(numbers, min_size=1, max_size=20), numbers)
def test_a_score_is_a_chance(text: str, known: str, weights: list[float], bias: float) -> None:
    # INVARIANT: the score of a text lies between 0 and 1.
    features = find_features(f"{known} {text}")
    weighted = [weights[at % len(weights)] for at in range(len(features))]
    model = TrainedClassifier(CARD, GuardWeights(features, weighted, bias), "")

    assert 0 <= model.score_text(text) <= 1
    assert model.score_text(text) == model.score_text(text)
    assert all(0 <= one < FEATURE_COUNT for one in features)


@given(st.integers(1, 5000), st.floats(1e-4, 0.9))
def test_a_promise_is_kept_by_the_number_of_rows(groups: int, rate: float) -> None:
    # INVARIANT: a model never promises a rate below what its rows support.
    supported = upper_bound(0, groups)
    if supported > rate * (1 + 1e-6):
        with pytest.raises(InputError, match="cannot support"):
            training.check_rate(rate, groups, "rows")
    elif supported < rate * (1 - 1e-6):
        training.check_rate(rate, groups, "rows")


@given(st.binary(max_size=300), st.integers(0, 2000), st.integers(0, 255))
def test_a_damaged_file_is_an_error_or_the_same_model(tail: bytes, place: int, value: int) -> None:
    file = io.BytesIO()
    write_guard_file(CARD, GuardWeights(find_features("some words"), [0.5] * 10, 0.1), file)
    raw = bytearray(file.getvalue())
    raw[place % len(raw)] = value
    path: Any = SimpleNamespace(name="any.npz", read_bytes=lambda: bytes(raw) + tail)
    with suppress(InputError):
        assert read_guard_file(path, where="file").card.code == "TOPIC_DENIED"
