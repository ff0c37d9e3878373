"""Recall: the experiences similar to a request, as signals for its decision and record."""

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from demur.errors import InputError
from demur.memory.index import MemoryIndex
from demur.memory.settings import MemorySettings
from demur.memory.vector import Vector
from demur.model.record import Similarity

__all__ = ["SIGNALS", "Recall", "recall_similar"]

# The signals of a recall that a record keeps for replays.
SIGNALS = (
    "failure_similarity",
    "grave_failure_score",
    "memory_exact",
    "success_similarity",
    "uncertainty_score",
)


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """The experiences that are similar to a request.

    `grave_score` is the similarity to failures that are severe enough to block.
    `uncertainty_score` is 1 if nothing similar was ever labelled, 0 for an identical request.
    `exact` is false if something nearer may have been missed among very many.
    """

    failure: Similarity
    success: Similarity
    grave_score: float
    uncertainty_score: float
    digest: str
    exact: bool = True

    def risk_signals(self) -> dict[str, Any]:
        """Return the signals as plain JSON, as a record keeps them."""
        return {
            "failure_similarity": msgspec.to_builtins(self.failure),
            "grave_failure_score": self.grave_score,
            "memory_exact": self.exact,
            "success_similarity": msgspec.to_builtins(self.success),
            "uncertainty_score": self.uncertainty_score,
        }

    @classmethod
    def from_signals(cls, signals: Mapping[str, Any], digest: str) -> Self:
        """Return the recall that a record keeps.

        Raises:
            InputError: A signal is missing or cannot be used.
        """
        try:
            return cls(
                failure=msgspec.convert(signals["failure_similarity"], Similarity),
                success=msgspec.convert(signals["success_similarity"], Similarity),
                grave_score=msgspec.convert(signals["grave_failure_score"], float),
                uncertainty_score=msgspec.convert(signals["uncertainty_score"], float),
                digest=digest,
                exact=msgspec.convert(signals["memory_exact"], bool),
            )
        except (KeyError, msgspec.ValidationError) as error:
            problem = f"what memory recalled cannot be read: {error}"
            raise InputError(problem, where="risk_signals") from error


def recall_similar(index: MemoryIndex, vector: Vector, settings: MemorySettings) -> Recall:
    """Return the experiences in `index` that are similar to `vector`."""
    hits = index.search(vector, settings.top_k, min_severity=settings.block_severity)
    best = max(hits.failure.score, hits.success.score)
    return Recall(
        failure=hits.failure,
        success=hits.success,
        grave_score=hits.grave,
        uncertainty_score=round(1 - best, 6),
        digest=index.digest,
        exact=hits.exact,
    )
