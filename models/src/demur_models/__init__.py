"""Small learned models for demur. `README.md` is the model card.

`requests` scores a request: harm, harm by family, and injection. `documents` scores the
instructions planted in a tool result or a retrieved text. `answers` scores whether an answer
refuses its prompt in full.
Each file is checked against its SHA-256 in `models.json` before use.
"""

import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from demur_models.network import Floats, Network, split_pair, split_tokens

__all__ = [
    "AnswerModel",
    "ModelFileError",
    "TextModel",
    "open_answers",
    "open_documents",
    "open_requests",
]

# Scores are rounded, so that machines whose arithmetic differs in the last bits agree.
_PLACES = 4
# Texts of up to so many tokens count as short.
_SHORT = 20


class ModelFileError(ValueError):
    """A model file is not the one that this package was built with."""


class Head(NamedTuple):
    """One score of a model: how its logit is scaled, and the scores from which it counts or warns.

    `length_slope` is what the logit loses for each unit of the logarithm of a long text's length:
    the more words a harmless text has, the higher the highest of them scores.
    """

    slope: float
    shift: float
    threshold: float
    warn_threshold: float | None = None
    length_slope: float = 0.0

    def shorten(self, logit: float, count: int) -> float:
        """Return the logit of a text of so many tokens as if the text were short."""
        return logit - self.length_slope * math.log(max(1.0, count / _SHORT))

    def to_score(self, logit: float, count: int) -> float:
        """Return the score for the logit of a text of so many tokens."""
        return _to_chance(self.slope * self.shorten(logit, count) + self.shift)


class TextModel(NamedTuple):
    """Scores a text. The network's last outputs share the harm among families, if there are."""

    network: Network
    heads: dict[str, Head]
    families: tuple[str, ...]
    digest: str

    @property
    def thresholds(self) -> dict[str, float]:
        """The score from which each head counts."""
        return {name: head.threshold for name, head in self.heads.items()}

    @property
    def warn_thresholds(self) -> dict[str, float]:
        """The lower score from which a head warns, for the heads that have one."""
        least = {name: head.warn_threshold for name, head in self.heads.items()}
        return {name: value for name, value in least.items() if value is not None}

    def score(self, text: str) -> dict[str, float]:
        """Return the score of each head, and `harm_FAMILY`, the harm shared among families."""
        tokens = split_tokens(text)
        logits = self.network.logits(tokens)
        scores = {
            name: head.to_score(float(logit), len(tokens))
            for (name, head), logit in zip(self.heads.items(), logits, strict=False)
        }
        return scores | self._share_harm(scores, logits[len(self.heads) :])

    def _share_harm(self, scores: dict[str, float], logits: Floats) -> dict[str, float]:
        if not self.families:
            return {}
        shares = np.exp(logits - logits.max())
        shares *= scores["harm"] / shares.sum()
        parts = zip(self.families, shares, strict=True)
        return {f"harm_{name}": round(float(part), _PLACES) for name, part in parts}


class AnswerModel(NamedTuple):
    """Scores an answer, given its prompt where that is known."""

    network: Network
    digest: str

    def score_answer(self, prompt: str | None, answer: str) -> float:
        """Return the chance that the answer refuses in full, between 0 and 1."""
        return _to_chance(float(self.network.logits(split_pair(prompt, answer))[0]))


def _to_chance(logit: float) -> float:
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, logit)))), _PLACES)


@cache
def open_requests() -> TextModel:
    """Return the model of requests.

    Raises:
        ModelFileError: The file is not the one that the package was built with.
    """
    return _open_texts("requests")


@cache
def open_documents() -> TextModel:
    """Return the model of documents.

    Raises:
        ModelFileError: The file is not the one that the package was built with.
    """
    return _open_texts("documents")


@cache
def open_answers() -> AnswerModel:
    """Return the model of answers.

    Raises:
        ModelFileError: The file is not the one that the package was built with.
    """
    network, facts = _open_network("answers")
    return AnswerModel(network, facts["sha256"])


def _open_texts(name: str) -> TextModel:
    network, facts = _open_network(name)
    heads = {head: Head(**values) for head, values in facts["heads"].items()}
    return TextModel(network, heads, tuple(facts["families"]), facts["sha256"])


def _open_network(name: str) -> tuple[Network, dict[str, Any]]:
    folder = files("demur_models")
    facts = json.loads((folder / "models.json").read_text(encoding="utf-8"))[name]
    content = (folder / f"{name}.npz").read_bytes()
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        msg = f"{name}.npz is not the file that demur-models was built with; install it again"
        raise ModelFileError(msg)
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        return Network.from_arrays(arrays), facts
