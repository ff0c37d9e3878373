"""Classifiers that run on this machine: an ONNX file, or a pipeline of transformers.

Both need their extra: `demur[onnx]` or `demur[transformers]`. The digest is that of the
files of the model, and of the settings that change its scores.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from demur.errors import InputError
from demur.scorers.contract import CategoryScores, ScorerError, ScorerText, category_name
from demur.scorers.settings import ModelSettings

_CHUNK = 1 << 20
_MAX_TOKENS, _OVERLAP_TOKENS = 512, 32
_TOKENIZER_FILE, _CONFIG_FILE = "tokenizer.json", "config.json"


def open_local_model(name: str, settings: ModelSettings) -> "LocalClassifier":
    """Return the classifier that settings describe; it is loaded when it is first used.

    Raises:
        InputError: Its file does not exist.
    """
    path = Path(settings.path)
    if not path.exists():
        where = f"guards.models.{name}.path"
        help_text = "a folder or file on this machine; `demur.toml` is where its path begins"
        raise InputError(f"there is no `{settings.path}`", where=where, help=help_text)
    kind = OnnxClassifier if settings.kind == "onnx" else TransformersClassifier
    return kind(settings, _digest_model(settings))


def _list_files(settings: ModelSettings) -> list[Path]:
    """Return the files that decide about scores: those of the folder, or those of the model."""
    path = Path(settings.path)
    found = sorted(path.rglob("*") if path.is_dir() else path.parent.iterdir())
    if not path.is_dir():
        settings_files = {_TOKENIZER_FILE, _CONFIG_FILE}
        # Weights may stand in a file of their own, as in `model.onnx_data`.
        found = [
            one for one in found if one.name.startswith(path.name) or one.name in settings_files
        ]
    if settings.tokenizer:
        found.append(Path(settings.tokenizer))
    return [one for one in found if one.is_file()]


def _digest_model(settings: ModelSettings) -> str:
    """Return the digest of the files with their names, and of how they are read."""
    whole = hashlib.sha256(repr((settings.labels, settings.several_labels)).encode())
    for file in _list_files(settings):
        whole.update(f"{file.name}\0".encode())
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                whole.update(chunk)
    return f"sha256:{whole.hexdigest()}"


class LocalClassifier:
    """A classifier that is loaded once."""

    def __init__(self, settings: ModelSettings, digest: str) -> None:
        self.digest = digest
        self._settings = settings
        self._lock = Lock()
        self._model: Any = None

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Return the scores of each text, or raise `ScorerError`."""
        del deadline  # The pipeline does not wait longer than its timeout.
        with self._lock:
            # Loading takes seconds, and happens once.
            if self._model is None:
                self._model = self._load()
            rows = self._classify([one.text for one in texts])
        return [self._read_row(row) for row in rows]

    def _read_row(self, row: dict[str, float]) -> CategoryScores:
        scores: dict[str, float] = {}
        for label, score in row.items():
            # Two labels may have one name, such as `hate/threat` and `hate_threat`.
            name = category_name(label)
            scores[name] = max(float(score), scores.get(name, 0.0))
        least = self._settings.flag_above
        above = () if least is None else (name for name, one in scores.items() if one > least)
        # A label with a code of its own is one that matters; `safe` is none.
        known = self._settings.codes
        for name in known:
            if name not in scores:
                help_text = f"its labels are {', '.join(scores)}"[:120]
                raise ScorerError("failure", f"it has no label `{name}` of `codes`", help_text)
        return CategoryScores(scores, frozenset(name for name in above if name in known))

    def _load(self) -> Any:
        raise NotImplementedError

    def _classify(self, texts: list[str]) -> list[dict[str, float]]:
        raise NotImplementedError


def _import_extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        help_text = f"pip install 'demur[{extra}]'"
        raise ScorerError("failure", f"`{module}` is not installed", help_text) from None


class OnnxClassifier(LocalClassifier):
    """A classifier in an ONNX file, with `tokenizer.json` and `config.json` in the same folder."""

    def _load(self) -> Any:
        runtime = _import_extra("onnxruntime", "onnx")
        tokenizers = _import_extra("tokenizers", "onnx")
        path = Path(self._settings.path)
        file = path if path.is_file() else path / "model.onnx"
        words = Path(self._settings.tokenizer or file.parent / _TOKENIZER_FILE)
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(words))
        tokenizer.enable_truncation(_MAX_TOKENS, stride=_OVERLAP_TOKENS)
        tokenizer.enable_padding()
        return session, tokenizer, self._read_labels(file.parent / _CONFIG_FILE)

    def _read_labels(self, config: Path) -> list[str]:
        if self._settings.labels:
            return list(self._settings.labels)
        try:
            names = json.loads(config.read_text(encoding="utf-8"))["id2label"]
        except (OSError, ValueError, KeyError, TypeError):
            help_text = "name them in `labels`, in the order of the model"
            raise ScorerError("failure", "its labels are not known", help_text) from None
        return [names[str(number)] for number in range(len(names))]

    def _classify(self, texts: list[str]) -> list[dict[str, float]]:
        session, tokenizer, labels = self._model
        rows = []
        for encoding in tokenizer.encode_batch(texts):
            # A text with more tokens than the model takes has several windows.
            windows = self._run_session(session, [encoding, *encoding.overflowing])
            rows.append(dict(zip(labels, map(max, zip(*windows, strict=True)), strict=True)))
        return rows

    def _run_session(self, session: Any, encoded: list[Any]) -> list[list[float]]:
        """Return the score of each label, for each window of tokens."""
        numpy = _import_extra("numpy", "onnx")
        known = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        wanted = [one.name for one in session.get_inputs()]
        inputs = {name: numpy.array(known[name], dtype=numpy.int64) for name in wanted}
        logits = numpy.asarray(session.run(None, inputs)[0], dtype=float)
        if self._settings.several_labels:
            chances = 1 / (1 + numpy.exp(-logits))
        else:
            shifted = numpy.exp(logits - logits.max(axis=-1, keepdims=True))
            chances = shifted / shifted.sum(axis=-1, keepdims=True)
        return [[float(one) for one in row] for row in chances]


class TransformersClassifier(LocalClassifier):
    """A `text-classification` pipeline of transformers, from a folder on this machine."""

    def _load(self) -> Any:
        transformers = _import_extra("transformers", "transformers")
        function = "sigmoid" if self._settings.several_labels else "softmax"
        return transformers.pipeline(
            "text-classification",
            model=self._settings.path,
            top_k=None,
            function_to_apply=function,
            truncation=True,
        )

    def _classify(self, texts: list[str]) -> list[dict[str, float]]:
        parts = [list(self._split_by_tokens(text)) for text in texts]
        batch = self._settings.defaults.batch
        rows = iter(self._model([one for listed in parts for one in listed], batch_size=batch))
        scored = [[_read_labels(next(rows)) for _ in listed] for listed in parts]
        return [{label: max(row[label] for row in part) for label in part[0]} for part in scored]

    def _split_by_tokens(self, text: str) -> Iterator[str]:
        """Yield parts that the model reads whole: rare characters are several tokens each."""
        tokenizer = getattr(self._model, "tokenizer", None)
        limit = getattr(tokenizer, "model_max_length", _MAX_TOKENS)
        if tokenizer is None or len(text) < 2 or _count_tokens(tokenizer, text) <= limit:
            yield text
            return
        half = len(text) // 2
        overlap = min(_OVERLAP_TOKENS, half // 2)
        yield from self._split_by_tokens(text[: half + overlap])
        yield from self._split_by_tokens(text[half:])


def _count_tokens(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, truncation=False, verbose=False)["input_ids"])


def _read_labels(row: Any) -> dict[str, float]:
    return {one["label"]: one["score"] for one in row}
