"""Memory of labelled outcomes: find similar experiences and apply them to a verdict."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.memory.experience import ActionOutcome, Experience, Vector, cosine_score
    from demur.memory.index import MemoryHits, MemoryIndex
    from demur.memory.projection import EmbeddingProjection, HashedProjection, Projection
    from demur.memory.recall import (
        MemoryAdjustment,
        MemorySettings,
        Recall,
        apply_memory,
        recall_similar,
    )

__all__ = [
    "ActionOutcome",
    "EmbeddingProjection",
    "Experience",
    "HashedProjection",
    "MemoryAdjustment",
    "MemoryHits",
    "MemoryIndex",
    "MemorySettings",
    "Projection",
    "Recall",
    "Vector",
    "apply_memory",
    "cosine_score",
    "recall_similar",
]

_HOMES = {
    "demur.memory.experience": "ActionOutcome Experience Vector cosine_score",
    "demur.memory.index": "MemoryHits MemoryIndex",
    "demur.memory.projection": "EmbeddingProjection HashedProjection Projection",
    "demur.memory.recall": "MemoryAdjustment MemorySettings Recall apply_memory recall_similar",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
