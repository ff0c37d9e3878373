"""The network: hashed words, two convolutions over them, two poolings, two layers.

A word is looked up twice, by its hash and by the hash of its first letters, so that a form that
was never trained on is read by its stem. Tables are stored as 8-bit numbers with one scale a row.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MAX_TOKENS = 512
MAX_PROMPT_TOKENS = 96
# Stands between a prompt and its answer.
SEPARATOR = "\x1e"
_PREFIX_LENGTH, _MAX_KEPT_LENGTH = 5, 40
# Tokens that are multiplied at once: so few that the library of linear algebra starts no threads,
# which would take more time than they save.
_BLOCK = 8
# Longer texts are read by their beginning and their end.
_MAX_LENGTH = 16_000
# Scripts without spaces are read by the character.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}_]+|[^\w\s]|_")


def split_tokens(text: str, limit: int = MAX_TOKENS) -> list[str]:
    """Return the words and marks of a text; of a long text, those of both ends."""
    if len(text) > _MAX_LENGTH:
        half = _MAX_LENGTH // 2
        text = f"{text[:half]} {text[-half:]}"
    tokens = _TOKEN.findall(text.casefold())
    return tokens if len(tokens) <= limit else [*tokens[: limit // 2], *tokens[-limit // 2 :]]


def split_pair(prompt: str | None, answer: str, limit: int = MAX_TOKENS) -> list[str]:
    """Return the tokens of a prompt and its answer, with a separator between them."""
    asked = split_tokens(prompt or "", MAX_PROMPT_TOKENS)
    return [*asked, SEPARATOR, *split_tokens(answer, limit - len(asked) - 1)]


def hash_tokens(tokens: Sequence[str], words: int, prefixes: int) -> Rows:
    """Return the table rows of each token: those of the word, and those of its prefix."""
    # Long tokens are rare, and would fill the memory: they are hashed without the cache.
    pairs = [
        _hash_token(token) if len(token) <= _MAX_KEPT_LENGTH else _hash_token.__wrapped__(token)
        for token in tokens
    ]
    hashed = np.array(pairs, dtype=np.int64).T
    rows: Rows = hashed % np.array([[words], [prefixes]])
    return rows


@lru_cache(maxsize=32_768)
def _hash_token(token: str) -> tuple[int, int]:
    stem = f"^{token[:_PREFIX_LENGTH]}"
    return crc32(token.encode("utf-8", "replace")), crc32(stem.encode("utf-8", "replace"))


class _Table(NamedTuple):
    """An embedding table of 8-bit numbers, with one scale a row."""

    values: NDArray[np.int8]
    scales: Floats

    def look_up(self, rows: Rows) -> Floats:
        return self.values[rows] * self.scales[rows, None]


class Network(NamedTuple):
    """A trained network. `logits` runs it on tokens."""

    words: _Table
    prefixes: _Table
    near: Floats
    near_bias: Floats
    far: Floats
    far_bias: Floats
    attention: Floats
    hidden: Floats
    hidden_bias: Floats
    output: Floats
    output_bias: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "Network":
        """Return the network that the arrays of a model file hold."""
        layers = [np.asarray(arrays[name], dtype=np.float32) for name in cls._fields[2:]]
        tables = [
            _Table(arrays[name], np.asarray(arrays[f"{name}_scales"], dtype=np.float32))
            for name in cls._fields[:2]
        ]
        return cls(tables[0], tables[1], *layers)

    def logits(self, tokens: Sequence[str]) -> Floats:
        """Return one logit for each head."""
        own, stems = hash_tokens(
            tokens or [SEPARATOR], len(self.words.values), len(self.prefixes.values)
        )
        embedded = self.words.look_up(own)
        embedded += self.prefixes.look_up(stems)
        features = _convolve(embedded, self.near, self.near_bias, step=1)
        features += _convolve(features, self.far, self.far_bias, step=2)
        weights = features @ self.attention
        weights = np.exp(weights - weights.max())
        weights /= weights.sum()
        pooled = np.concatenate((weights @ features, features.max(axis=0)))
        hidden = np.maximum(pooled @ self.hidden + self.hidden_bias, 0)
        logits: Floats = hidden @ self.output + self.output_bias
        return logits


def _convolve(values: Floats, kernel: Floats, bias: Floats, step: int) -> Floats:
    """Return the features of each token, from itself and the tokens `step` before and after."""
    count, width = values.shape
    blocks = -(-count // _BLOCK)
    windows = np.zeros((blocks * _BLOCK, 3 * width), dtype=np.float32)
    windows[step:count, :width] = values[:-step]
    windows[:count, width : 2 * width] = values
    windows[: max(count - step, 0), 2 * width :] = values[step:]
    features: Floats = windows.reshape(blocks, _BLOCK, 3 * width) @ kernel
    features = features.reshape(-1, kernel.shape[1])[:count]
    features += bias
    return np.maximum(features, 0, out=features)
