"""From a request to a vector: similar requests point the same way.

The default projection hashes named features into a fixed number of places. It is lexical:
it sees shared words, not shared meaning. Where meaning matters, an embedding model takes over
the words of the intent.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from demur.errors import InputError
from demur.memory.features import GROUPS, Features, extract_features, intent_text
from demur.memory.vector import MAX_SIZE, Vector

__all__ = ["EmbeddingProjection", "HashedProjection", "Projection"]

# The share of each group in a perfect score, in millionths. The default thresholds of
# `MemorySettings` were chosen with these: if you change one, measure the other again.
_SHARES = {
    "action": 250_000,
    "intent": 200_000,
    "evidence": 300_000,
    "amount": 120_000,
    "target": 80_000,
    "subject": 50_000,
}
_SIZE = 512
_MAX_EMBEDDING = MAX_SIZE // 2


class Projection(Protocol):
    """Turns requests into vectors. Vectors of different projections are never compared."""

    @property
    def name(self) -> str:
        """The name, including everything that affects vectors, such as version and size."""

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request given as plain JSON. Deterministic."""


class HashedProjection:
    """The default projection: signed feature hashing into `size` places."""

    def __init__(self, size: int = _SIZE) -> None:
        if not 16 <= size <= MAX_SIZE:
            raise InputError(f"a projection has 16 to {MAX_SIZE} places, not `{size}`")
        self.size = size
        self.name = f"hashed.v1/{size}"

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request."""
        return Vector.from_values(self.hash_features(extract_features(facts), GROUPS))

    def hash_features(
        self, groups: Mapping[str, Features], wanted: Sequence[str]
    ) -> dict[int, int]:
        """Return the sum of the wanted groups by place."""
        total: dict[int, int] = {}
        for group in wanted:
            hashed: dict[int, int] = {}
            for feature, weight in groups[group].items():
                place, sign = _hash_feature(group, feature, self.size)
                hashed[place] = hashed.get(place, 0) + sign * weight
            for place, value in _scale_values(hashed, _SHARES[group]).items():
                total[place] = total.get(place, 0) + value
        return total


class EmbeddingProjection:
    """The default projection with an embedding model for the words of the intent.

    `embed` turns a text into numbers, the same for the same text; `name` says which model
    in which version does so.
    """

    def __init__(self, name: str, embed: Callable[[str], Sequence[float]]) -> None:
        self._embed = embed
        self._hashed = HashedProjection()
        self.name = f"{name}+{self._hashed.name}"

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request.

        Raises:
            InputError: The model returned an invalid embedding.
        """
        others = [group for group in GROUPS if group != "intent"]
        places = self._hashed.hash_features(extract_features(facts), others)
        if said := intent_text(facts):
            for place, value in enumerate(
                _quantise_embedding(self._embed(said)), self._hashed.size
            ):
                places[place] = value
        return Vector.from_values(places)


@lru_cache(maxsize=2**15)
def _hash_feature(group: str, feature: str, size: int) -> tuple[int, int]:
    name = f"{group}:{feature}".encode("utf-8", "surrogatepass")
    raw = hashlib.blake2b(name, digest_size=8).digest()
    number = int.from_bytes(raw, "little")
    return (number >> 1) % size, 1 if number & 1 else -1


def _scale_values(values: Mapping[int, int], share: int) -> dict[int, int]:
    """Return the values scaled to a squared length of `share`, in integers."""
    norm = sum(value * value for value in values.values())
    if not norm:
        return {}
    factor = math.isqrt((share << 32) // norm)
    return {place: (value * factor + 2**15) >> 16 for place, value in values.items()}


def _quantise_embedding(numbers: Sequence[float]) -> list[int]:
    """Return an embedding as integers, scaled to the share of the intent group."""
    values = [float(number) for number in numbers]
    if len(values) > _MAX_EMBEDDING:
        raise InputError(f"an embedding has at most {_MAX_EMBEDDING} numbers")
    if not all(map(math.isfinite, values)):
        raise InputError("an embedding holds a number that is not finite")
    peak = max(map(abs, values), default=0.0)
    if not peak:
        return []
    values = [value / peak for value in values]
    # `fsum` rounds once, so the order of summation does not matter.
    length = math.sqrt(math.fsum(value * value for value in values))
    return [round(value / length * math.sqrt(_SHARES["intent"])) for value in values]
