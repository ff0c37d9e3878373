"""Local classifiers, with stand-ins for the libraries that run them."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from support.gates import CORE

from demur.scorers.brought import open_scorer
from demur.scorers.contract import ScorerError, ScorerText
from demur.scorers.settings import ModelSettings

LABELS = {"0": "SAFE", "1": "INJECTION"}
LOGITS = {"fine": [2.0, -2.0], "attack": [-3.0, 3.0]}


class FakeEncoding:
    def __init__(self, words: list[str]) -> None:
        self.ids = [list(LOGITS).index(word) for word in words[:2]]
        self.attention_mask, self.type_ids = [1] * len(self.ids), [0] * len(self.ids)
        self.overflowing = [FakeEncoding(words[2:])] if len(words) > 2 else []


class FakeTokenizer:
    """Knows two words, and takes two of them at a time."""

    @classmethod
    def from_file(cls, path: str) -> "FakeTokenizer":
        """Return the tokenizer of a file."""
        assert Path(path).name == "tokenizer.json"
        return cls()

    def enable_truncation(self, size: int, stride: int) -> None:
        """Take note that long texts are split."""
        assert stride < size

    def enable_padding(self) -> None:
        """Pad."""

    def encode_batch(self, texts: list[str]) -> list[FakeEncoding]:
        """Return the tokens of each text."""
        return [FakeEncoding(text.split()) for text in texts]


class FakeSession:
    """Classifies by the last word of a window."""

    def __init__(self, path: str, providers: list[str]) -> None:
        assert Path(path).is_file()
        assert providers == ["CPUExecutionProvider"]

    def get_inputs(self) -> list[Any]:
        """Return the names of what it takes."""
        return [SimpleNamespace(name="input_ids"), SimpleNamespace(name="attention_mask")]

    def run(self, names: None, inputs: dict[str, Any]) -> list[Any]:
        """Return the logits of each window."""
        assert names is None
        assert inputs["input_ids"].dtype == np.int64
        rows = [max(row.tolist()) for row in inputs["input_ids"]]
        return [np.array([list(LOGITS.values())[row] for row in rows], dtype=np.float32)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"id2label": LABELS}), encoding="utf-8")
    runtime = SimpleNamespace(InferenceSession=FakeSession)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=FakeTokenizer))
    return tmp_path


def settings(folder: Path, kind: str = "onnx", **more: Any) -> ModelSettings:
    codes = {"INJECTION": "CONTEXT_INJECTION"}
    return ModelSettings(kind=kind, path=str(folder), codes=codes, flag_above=0.5, **more)  # type: ignore[arg-type]


def test_an_onnx_file_scores_each_label(folder: Path) -> None:
    scorer = open_scorer("local", settings(folder), registry=CORE)
    fine, attack = scorer.score([ScorerText("fine"), ScorerText("attack")])
    assert attack.scores["INJECTION"] == pytest.approx(0.9975, abs=1e-4)
    assert not fine.flagged
    assert attack.flagged == {"INJECTION"}
    assert scorer.meanings["INJECTION"].code == "CONTEXT_INJECTION"


def test_what_does_not_fit_into_one_window_is_scored_all_the_same(folder: Path) -> None:
    scorer = open_scorer("local", settings(folder), registry=CORE)
    [found] = scorer.score([ScorerText("fine fine fine attack")])
    assert found.flagged == {"INJECTION"}


def test_a_code_for_a_label_that_the_model_does_not_have_is_a_failure(folder: Path) -> None:
    model = ModelSettings(
        kind="onnx", path=str(folder), codes={"injection": "CONTEXT_INJECTION"}, flag_above=0.5
    )
    with pytest.raises(ScorerError, match="no label `injection`") as caught:
        open_scorer("local", model, registry=CORE).score([ScorerText("attack")])
    assert caught.value.help == "its labels are SAFE, INJECTION"


def test_labels_may_be_named_and_independent(folder: Path) -> None:
    (folder / "config.json").unlink()
    own = settings(folder, labels=("SAFE", "INJECTION"), several_labels=True)
    [found] = open_scorer("local", own, registry=CORE).score([ScorerText("attack")])
    assert found.scores["INJECTION"] == pytest.approx(0.9526, abs=1e-4)
    alike = settings(folder, labels=("IN/JECTION", "IN-JECTION"), several_labels=True)
    alike = msgspec.structs.replace(alike, codes={"IN_JECTION": "CONTEXT_INJECTION"})
    [found] = open_scorer("local", alike, registry=CORE).score([ScorerText("fine")])
    assert found.scores == {"IN_JECTION": pytest.approx(0.8808, abs=1e-4)}
    with pytest.raises(ScorerError, match="labels are not known"):
        open_scorer("local", settings(folder), registry=CORE).score([ScorerText("fine")])


def test_the_digest_is_that_of_the_files(folder: Path) -> None:
    before = open_scorer("local", settings(folder), registry=CORE).digest
    assert before == open_scorer("local", settings(folder), registry=CORE).digest
    (folder / "model.onnx").write_bytes(b"other")
    assert open_scorer("local", settings(folder), registry=CORE).digest != before


def test_whatever_changes_scores_changes_the_digest(folder: Path) -> None:
    def digest(**more: Any) -> str:
        return open_scorer("local", settings(folder / "model.onnx", **more), registry=CORE).digest

    digests = [digest(), digest(several_labels=True), digest(labels=("A", "B"))]
    for name in ("tokenizer.json", "config.json", "model.onnx_data"):
        (folder / name).write_text("{ }", encoding="utf-8")
        digests.append(digest())
    assert len(set(digests)) == len(digests)
    (folder / "readme.md").write_text("words", encoding="utf-8")
    assert digest() == digests[-1]


def test_a_pipeline_of_transformers_scores_each_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipeline(task: str, **options: Any) -> Any:
        assert (task, options["top_k"], options["function_to_apply"]) == (
            "text-classification",
            None,
            "softmax",
        )

        def classify(texts: list[str], batch_size: int) -> list[list[dict[str, Any]]]:
            assert batch_size > 1
            row = [{"label": "INJECTION", "score": 0.9}, {"label": "SAFE", "score": 0.1}]
            return [row for _ in texts]

        return classify

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=pipeline))
    own = settings(tmp_path, "transformers")
    [found] = open_scorer("local", own, registry=CORE).score([ScorerText("x")])
    assert found.scores["INJECTION"] == 0.9
    assert found.flagged == {"INJECTION"}


class CuttingPipeline:
    """A pipeline that reads eight tokens of a text, where a rare character has four."""

    class Tokenizer:
        """Makes a token of each byte."""

        model_max_length = 8

        def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
            """Return the tokens of a text."""
            assert options["truncation"] is False
            return {"input_ids": [*text.encode()]}

    tokenizer = Tokenizer()

    def __call__(self, texts: list[str], batch_size: int) -> list[list[dict[str, Any]]]:
        """Score what fits."""
        del batch_size
        read = [text.encode()[:8] for text in texts]
        return [[{"label": "INJECTION", "score": 0.9 * (b"bad" in one)}] for one in read]


@pytest.mark.parametrize("text", ["bad", "\U0001f600" * 9 + "bad", "fine fine fine bad fine fine"])
def test_a_pipeline_reads_what_rare_characters_would_push_out(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = SimpleNamespace(pipeline=lambda *_parts, **_options: CuttingPipeline())
    monkeypatch.setitem(sys.modules, "transformers", fake)
    scorer = open_scorer("local", settings(tmp_path, "transformers"), registry=CORE)
    found, fine = scorer.score([ScorerText(text), ScorerText("all is fine here")])
    assert found.scores["INJECTION"] == 0.9
    assert not fine.flagged


@pytest.mark.parametrize(("kind", "extra"), [("onnx", "onnx"), ("transformers", "transformers")])
def test_a_missing_extra_is_named(
    kind: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("onnxruntime", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    scorer = open_scorer("local", settings(tmp_path, kind), registry=CORE)
    with pytest.raises(ScorerError) as caught:
        scorer.score([ScorerText("x")])
    assert caught.value.help == f"pip install 'demur[{extra}]'"
