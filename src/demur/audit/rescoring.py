"""Rescoring: compute the similarity scores of a request again from the vectors in a pack.

Scores are exact integer arithmetic, so a recorded score is right to the last digit or wrong. Only
vectors of the default projection can be compared: another projection would need its model. A
pack holds only the nearest experiences.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from demur.audit.difference import FieldDifference
from demur.audit.pack import MEMORY, PackError, PackedExperience
from demur.errors import InputError
from demur.memory.projection import HashedProjection
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.memory.vector import Vector, cosine_score
from demur.model.record import Neighbour, Similarity

__all__ = ["RescoreResult", "rescore_memory"]

_DIGITS = 6


class RescoreResult(NamedTuple):
    """Scores that differ, and notes on what could not be scored."""

    differences: tuple[FieldDifference, ...]
    notes: tuple[str, ...]


def rescore_memory(
    request: Mapping[str, Any],
    recall: Recall,
    settings: MemorySettings,
    memory: tuple[PackedExperience, ...],
) -> RescoreResult:
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
        *_score_differences(projection.project(request), usable, neighbours),
        *_signal_differences(recall, settings, known),
    ]
    return RescoreResult(
        tuple(found), tuple(_rescore_notes(len(neighbours), len(known), len(usable)))
    )


def _score_differences(
    query: Vector, usable: list[PackedExperience], neighbours: Mapping[str, Neighbour]
) -> Iterator[FieldDifference]:
    for one in usable:
        neighbour, place = neighbours[one.memory_id], f"risk_signals: {one.memory_id}"
        vector = _read_vector(one)
        score = cosine_score(query.dot(vector), query.norm, vector.norm)
        if score != neighbour.score:
            yield FieldDifference(f"{place} score", neighbour.score, score)
        if one.outcome != neighbour.label:
            yield FieldDifference(f"{place} label", neighbour.label, one.outcome)


def _read_vector(one: PackedExperience) -> Vector:
    try:
        return Vector.from_bytes(one.vector)
    except InputError as error:
        raise PackError(f"{one.memory_id}: {error.problem}", where=MEMORY) from error


def _signal_differences(
    recall: Recall, settings: MemorySettings, known: Mapping[str, PackedExperience]
) -> Iterator[FieldDifference]:
    """Yield the signals that do not follow from the neighbours."""
    failures = recall.failure.top_k
    pairs = [
        ("failure_similarity", recall.failure.score, _best_score(recall.failure)),
        ("success_similarity", recall.success.score, _best_score(recall.success)),
        (
            "uncertainty_score",
            recall.uncertainty_score,
            round(1 - max(_best_score(recall.failure), _best_score(recall.success)), _DIGITS),
        ),
    ]
    if all(one.memory_id in known for one in failures):
        grave = (
            o.score for o in failures if _neighbour_severity(known, o) >= settings.block_severity
        )
        pairs.append(("grave_failure_score", recall.grave_score, max(grave, default=0.0)))
    for field, recorded, replayed in pairs:
        if recorded != replayed:
            yield FieldDifference(f"risk_signals: {field}", recorded, replayed)


def _neighbour_severity(known: Mapping[str, PackedExperience], neighbour: Neighbour) -> int:
    return known[neighbour.memory_id].severity


def _best_score(similarity: Similarity) -> float:
    return max((one.score for one in similarity.top_k), default=0.0)


def _rescore_notes(neighbours: int, known: int, usable: int) -> Iterator[str]:
    if known < neighbours:
        gone = neighbours - known
        yield f"{gone} of {neighbours} experiences are not remembered any more: scores as recorded"
    if usable < known:
        yield f"{known - usable} vectors are of another projection: their scores are as recorded"
    if usable:
        yield f"{usable} of {neighbours} scores of memory were computed again"
