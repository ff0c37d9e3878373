"""The memory index: one tenant's experiences as an immutable snapshot to search."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from demur.errors import InputError
from demur.memory.experience import Experience, ActionOutcome
from demur.memory.shelf import EXACT_UP_TO, VectorIndex, build_vector_index
from demur.memory.vector import Vector, cosine_score
from demur.model.record import Neighbour, Similarity

__all__ = ["MemoryHits", "MemoryIndex"]


class MemoryHits(NamedTuple):
    """The experiences most similar to a vector.

    `grave` is the similarity to failures of at least the given severity. `exact` says that
    nothing nearer can have been missed.
    """

    failure: Similarity
    success: Similarity
    grave: float
    exact: bool


class _ScoredExperience(NamedTuple):
    """An experience with its score; sorts by falling score, then by id."""

    reverse_score: float
    memory_id: str
    experience: Experience

    @property
    def neighbour(self) -> Neighbour:
        return Neighbour(
            memory_id=self.memory_id,
            label=self.experience.outcome,
            score=-self.reverse_score,
            summary=self.experience.summary,
        )


class _OutcomeGroup(NamedTuple):
    """Experiences of one outcome and severity, with an index of their vectors.

    They are searched separately, so that many mild failures cannot hide a severe one.
    """

    outcome: ActionOutcome
    severity: int
    experiences: Sequence[Experience]
    shelf: VectorIndex

    def search(self, vector: Vector, top_k: int) -> list[_ScoredExperience]:
        hits = []
        for row, dot in self.shelf.find_nearest(vector, top_k):
            one = self.experiences[row]
            hits.append(
                _ScoredExperience(
                    -cosine_score(dot, vector.norm, one.vector.norm), one.memory_id, one
                )
            )
        return sorted(hits)[:top_k]


class MemoryIndex:
    """An immutable snapshot of experiences. Safe to share between threads.

    Searches are exact up to `exact_up_to` experiences of one outcome and severity; above
    that they go through a graph, where usearch is installed.

    Raises:
        InputError: Two experiences have one id, or come from different projections.
    """

    def __init__(
        self,
        experiences: Iterable[Experience],
        *,
        projection: str | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        # INVARIANT: the order of the experiences does not matter.
        self.experiences = tuple(sorted(experiences, key=lambda one: one.memory_id))
        self.projection = _one_projection(self.experiences, projection)
        _check_ids(self.experiences)
        wards: dict[tuple[ActionOutcome, int], list[Experience]] = {}
        for one in self.experiences:
            severity = one.severity if one.outcome is ActionOutcome.FAILURE else 0
            wards.setdefault((one.outcome, severity), []).append(one)
        self._wards = [
            _OutcomeGroup(*key, ward, build_vector_index([one.vector for one in ward], exact_up_to))
            for key, ward in sorted(wards.items())
        ]

    def __len__(self) -> int:
        return len(self.experiences)

    @cached_property
    def digest(self) -> str:
        """`sha256:` and the digest of everything here that can affect a decision."""
        hashing = hashlib.sha256(b"demur memory.v1\n")
        for one in self.experiences:
            for part in (one.memory_id, one.projection, one.outcome, str(one.severity)):
                raw = part.encode("utf-8", "surrogatepass")
                hashing.update(len(raw).to_bytes(4, "little") + raw)
            hashing.update(one.vector.raw)
        return f"sha256:{hashing.hexdigest()}"

    @cached_property
    def expires_at(self) -> datetime | None:
        """When its first experience expires and a new snapshot is due; None: never."""
        return min((one.expiry for one in self.experiences if one.expiry is not None), default=None)

    def search(self, vector: Vector, top_k: int = 5, *, min_severity: int = 1) -> MemoryHits:
        """Return the experiences most similar to `vector`, `top_k` of each outcome.

        The nearest failure of at least `min_severity` is always among them.
        """
        failures: list[_ScoredExperience] = []
        successes: list[_ScoredExperience] = []
        for ward in self._wards:
            hits = ward.search(vector, top_k)
            (failures if ward.outcome is ActionOutcome.FAILURE else successes).extend(hits)
        failures.sort()
        shown = failures[:top_k]
        worst = next((hit for hit in failures if hit.experience.severity >= min_severity), None)
        if worst is not None and worst not in shown:
            shown[-1] = worst
        return MemoryHits(
            failure=_build_similarity(shown),
            success=_build_similarity(successes),
            grave=0.0 if worst is None else -worst.reverse_score,
            exact=all(ward.shelf.exact for ward in self._wards),
        )


def _build_similarity(hits: Sequence[_ScoredExperience]) -> Similarity:
    neighbours = tuple(hit.neighbour for hit in hits)
    return Similarity(score=neighbours[0].score if neighbours else 0.0, top_k=neighbours)


def _one_projection(experiences: Sequence[Experience], wanted: str | None) -> str | None:
    for one in experiences:
        if wanted is None:
            wanted = one.projection
        elif one.projection != wanted:
            raise InputError(
                f"made by the projection `{one.projection}`, not by `{wanted}`",
                where=f"experience `{one.memory_id}`",
                help="only vectors of one projection compare: project its request again",
            )
    return wanted


def _check_ids(experiences: Sequence[Experience]) -> None:
    before: str | None = None
    for one in experiences:
        if one.memory_id == before:
            raise InputError("two experiences have this id", where=f"experience `{before}`")
        before = one.memory_id
