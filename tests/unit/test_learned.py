import hashlib
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import demur_models
import numpy as np
import pytest
from demur_models import Head, network
from demur_models.network import SEPARATOR, Network, split_pair, split_tokens
from hypothesis import given
from hypothesis import strategies as st

from demur import learned
from demur.learned import (
    LearnedModelError,
    load_answer_model,
    load_document_model,
    load_request_model,
)

FOLDER = files("demur_models")
MODELS: dict[str, Any] = json.loads((FOLDER / "models.json").read_text(encoding="utf-8"))
VECTORS: dict[str, Any] = json.loads((FOLDER / "vectors.json").read_text(encoding="utf-8"))
# OpenBLAS uses one thread for a product of matrices of at most this many multiplications.
_MAX_SINGLE_THREAD_WORK = 4 * 65_536
SAMPLES = [(name, text, chances) for name, vectors in VECTORS.items() for text, chances in vectors]


@pytest.fixture
def fresh_models() -> Any:
    caches = (load_request_model, load_document_model, load_answer_model)
    opened = (
        demur_models.open_requests,
        demur_models.open_documents,
        demur_models.open_answers,
    )
    for cached in (*caches, *opened):
        cached.cache_clear()
    yield
    for cached in (*caches, *opened):
        cached.cache_clear()


def open_network(name: str) -> Network:
    with np.load(str(FOLDER / f"{name}.npz"), allow_pickle=False) as arrays:
        return Network.from_arrays(arrays)


@pytest.mark.parametrize(("name", "text", "chances"), SAMPLES)
def test_numpy_gives_what_the_trained_network_gave(
    name: str, text: str, chances: list[float]
) -> None:
    prompt, mark, answer = text.partition(SEPARATOR)
    tokens = split_pair(prompt, answer) if mark else split_tokens(text)
    found = 1 / (1 + np.exp(-open_network(name).logits(tokens)))
    assert found == pytest.approx(chances, abs=0.005)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 17, 40])
def test_a_convolution_reads_each_token_and_both_neighbours(count: int, step: int) -> None:
    source = np.random.default_rng(count)
    values = source.standard_normal((count, 3), dtype=np.float32)
    kernel = source.standard_normal((9, 2), dtype=np.float32)
    bias = source.standard_normal(2, dtype=np.float32)
    around = np.zeros((count + 2 * step, 3), dtype=np.float32)
    around[step : step + count] = values
    seen = [np.concatenate(around[at : at + 2 * step + 1 : step]) for at in range(count)]

    found = network._convolve(values, kernel, bias, step)

    assert found == pytest.approx(np.maximum(seen @ kernel + bias, 0), abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_no_product_is_so_large_that_the_library_starts_threads(name: str) -> None:
    made = open_network(name)

    assert network._BLOCK * max(made.near.size, made.far.size) <= _MAX_SINGLE_THREAD_WORK


def test_vectors_are_stored_for_every_model() -> None:
    assert {name for name, _, _ in SAMPLES} == {"answers", "documents", "requests"}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_file_is_small_and_has_the_checksum_of_the_package(name: str) -> None:
    content = (FOLDER / f"{name}.npz").read_bytes()
    assert len(content) <= 4_000_000
    assert hashlib.sha256(content).hexdigest() == MODELS[name]["sha256"]


@pytest.mark.usefixtures("fresh_models")
def test_a_changed_model_file_is_an_error_with_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("models.json", "requests.npz"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    with (tmp_path / "requests.npz").open("ab") as file:
        file.write(b"x")
    monkeypatch.setattr(demur_models, "files", lambda _package: tmp_path)
    with pytest.raises(LearnedModelError, match=r"requests\.npz is not the file") as caught:
        load_request_model()
    assert "demur-models" in str(caught.value.help)


@pytest.mark.usefixtures("fresh_models")
def test_a_missing_model_file_is_an_error_with_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demur_models, "files", lambda _package: tmp_path)
    with pytest.raises(LearnedModelError, match="cannot load a learned model"):
        load_answer_model()


@pytest.mark.usefixtures("fresh_models")
@pytest.mark.parametrize("missing", ["demur_models", "numpy"])
def test_without_the_package_or_numpy_there_is_no_model(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(learned, "find_spec", lambda name: None if name == missing else object())
    assert load_request_model() is None
    assert load_document_model() is None
    assert load_answer_model() is None


@pytest.mark.usefixtures("fresh_models")
def test_a_package_that_cannot_be_imported_is_an_error_with_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_name: str) -> None:
        raise ImportError("numpy is broken")

    monkeypatch.setattr(learned, "import_module", fail)
    with pytest.raises(LearnedModelError, match="numpy is broken"):
        load_request_model()


def test_long_tokens_are_not_kept_in_memory() -> None:
    network._hash_token.cache_clear()
    network.hash_tokens(["word", "w" * 10_000], 100, 100)
    assert network._hash_token.cache_info().currsize == 1


def test_importing_demur_loads_no_numpy() -> None:
    code = "import demur, sys; from demur import learned; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_scores_of_families_share_the_harm() -> None:
    model = load_request_model()
    assert model is not None
    scores = model.score("Write a message that makes my neighbours believe I am from their bank.")
    shares = [value for name, value in scores.items() if name.startswith("harm_")]
    assert len(shares) == 9
    assert sum(shares) == pytest.approx(scores["harm"], abs=0.001)
    assert set(model.thresholds) == {"harm", "injection"}


def test_a_warning_needs_less_than_an_escalation() -> None:
    model = load_request_model()
    assert model is not None
    assert set(model.warn_thresholds) == {"injection"}
    assert model.warn_thresholds["injection"] < model.thresholds["injection"]


def test_the_same_logit_says_less_of_a_longer_text() -> None:
    head = Head(slope=1.0, shift=0.0, threshold=0.5, length_slope=1.5)
    scores = [head.to_score(3.0, count) for count in (0, 1, 20, 200, 512)]
    assert scores[0] == scores[1] == scores[2] == 0.9526
    assert scores[2] > scores[3] > scores[4]
    assert head._replace(length_slope=0.0).to_score(3.0, 512) == scores[0]


@given(st.text(max_size=3000))
def test_a_score_lies_between_0_and_1_for_any_text(text: str) -> None:
    requests, documents = load_request_model(), load_document_model()
    answers = load_answer_model()
    assert requests is not None
    assert documents is not None
    assert answers is not None
    scores = [*requests.score(text).values(), *documents.score(text).values()]
    assert all(0 <= score <= 1 for score in (*scores, answers.score_answer(None, text)))
    assert requests.score(text) == requests.score(text)


def test_a_very_long_text_is_read_by_both_ends() -> None:
    model = load_request_model()
    assert model is not None
    middle = "x " * 100_000
    assert model.score(f"one {middle} two") == model.score(f"one {middle} y {middle} two")
