"""Rescoring: compute the similarity scores of a request again from the vectors in a pack.

Scores are exact integer arithmetic, so a recorded score is right to the last digit or wrong. Only
vectors of the default projection can be compared: another projection would need its model. A
pack holds only the nearest experiences.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from demur.audit.difference import Difference
from demur.audit.pack import MEMORY, PackError, Remembered
from demur.errors import InputError
from demur.memory.projection import HashedProjection
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.memory.vector import Vector, cosine
from demur.model.record import Neighbour, Similarity

__all__ = ["Rescored", "rescored"]

_DIGITS = 6


class Rescored(NamedTuple):
    """Scores that differ, and notes on what could not be scored."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def rescored(
    request: Mapping[str, Any],
    recall: Recall,
    settings: MemorySettings,
    memory: tuple[Remembered, ...],
) -> Rescored:
    """Compare the recorded scores with those of the vectors in the pack.

    Raises:
        PackError: The vectors are damaged, or do not belong to the recorded neighbours.
    """
    neighbours = {one.memory_id: one for s in (recall.failure, recall.success) for one in s.top_k}
    known = {one.memory_id: one for one in memory}
    if len(known) != len(memory) or not known.keys() <= neighbours.keys():
        raise PackError("not the experiences that the record names", where=MEMORY)
    projection = HashedProjection()
    usable = [one for one in memory if one.projection == projection.name]
    found = [
        *_scores(projection.project(request), usable, neighbours),
        *_sums(recall, settings, known),
    ]
    return Rescored(tuple(found), tuple(_notes(len(neighbours), len(known), len(usable))))


def _scores(
    query: Vector, usable: list[Remembered], neighbours: Mapping[str, Neighbour]
) -> Iterator[Difference]:
    for one in usable:
        neighbour, place = neighbours[one.memory_id], f"risk_signals: {one.memory_id}"
        vector = _vector(one)
        score = cosine(query.dot(vector), query.norm, vector.norm)
        if score != neighbour.score:
            yield Difference(f"{place} score", neighbour.score, score)
        if one.outcome != neighbour.label:
            yield Difference(f"{place} label", neighbour.label, one.outcome)


def _vector(one: Remembered) -> Vector:
    try:
        return Vector.from_bytes(one.vector)
    except InputError as error:
        raise PackError(f"{one.memory_id}: {error.problem}", where=MEMORY) from error


def _sums(
    recall: Recall, settings: MemorySettings, known: Mapping[str, Remembered]
) -> Iterator[Difference]:
    """Yield the signals that do not follow from the neighbours."""
    failures = recall.failure.top_k
    pairs = [
        ("failure_similarity", recall.failure.score, _best(recall.failure)),
        ("success_similarity", recall.success.score, _best(recall.success)),
        (
            "uncertainty_score",
            recall.uncertainty_score,
            round(1 - max(_best(recall.failure), _best(recall.success)), _DIGITS),
        ),
    ]
    if all(one.memory_id in known for one in failures):
        grave = (o.score for o in failures if _severity(known, o) >= settings.block_severity)
        pairs.append(("grave_failure_score", recall.grave_score, max(grave, default=0.0)))
    for field, recorded, replayed in pairs:
        if recorded != replayed:
            yield Difference(f"risk_signals: {field}", recorded, replayed)


def _severity(known: Mapping[str, Remembered], neighbour: Neighbour) -> int:
    return known[neighbour.memory_id].severity


def _best(similarity: Similarity) -> float:
    return max((one.score for one in similarity.top_k), default=0.0)


def _notes(neighbours: int, known: int, usable: int) -> Iterator[str]:
    if known < neighbours:
        gone = neighbours - known
        yield f"{gone} of {neighbours} experiences are not remembered any more: scores as recorded"
    if usable < known:
        yield f"{known - usable} vectors are of another projection: their scores are as recorded"
    if usable:
        yield f"{usable} of {neighbours} scores of memory were computed again"
