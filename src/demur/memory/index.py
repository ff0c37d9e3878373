"""The memory index: one tenant's experiences as an immutable snapshot to search.

There are three vector indexes. Each returns every row that may be among the nearest with its exact
dot product, and the caller scores them. `MatrixIndex` and `ColumnIndex` are exact and agree to the
last digit; `GraphIndex` is fast among very many rows and may miss one.
"""

import hashlib
import heapq
import importlib
import math
import struct
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache, cached_property
from itertools import pairwise
from operator import truediv
from typing import Any, NamedTuple, Protocol

from demur.errors import InputError
from demur.memory.experience import MAX_NORM, ActionOutcome, Experience, Vector, cosine_score
from demur.model.record import Neighbour, Similarity


@cache
def load_numpy() -> Any:
    """Return the module `numpy`, or None where it is not installed."""
    return _import_optional("numpy")


@cache
def load_usearch() -> Any:
    """Return the module `usearch.index`, or None where it or numpy is not installed."""
    return None if load_numpy() is None else _import_optional("usearch.index")


def _import_optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


EXACT_UP_TO = 10_000

# Scores have six decimals: rows that tie there differ by less than this before rounding.
_SCORE_TIE = 2e-6
_MIN_CANDIDATES = 64
_SLOT_ZERO = 2**31
_MAX_LENGTH = math.sqrt(MAX_NORM)


class NearRow(NamedTuple):
    """A row that may be among the nearest, and its dot product with the query."""

    row: int
    dot: int


class VectorIndex(Protocol):
    """Vectors that are searched together."""

    @property
    def exact(self) -> bool:
        """Whether no row can be missed."""

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return at least the `count` nearest rows with a positive dot product, in any order."""


def build_vector_index(vectors: Sequence[Vector], exact_up_to: int = EXACT_UP_TO) -> VectorIndex:
    """Return the best index for the vectors that the installed libraries allow."""
    if len(vectors) > exact_up_to and load_usearch() is not None:
        return GraphIndex(vectors)
    return ColumnIndex(vectors) if load_numpy() is None else MatrixIndex(vectors)


class MatrixIndex:
    """Exact search by one matrix product, with numpy."""

    exact = True

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._np = load_numpy()
        self._rows = _dense_matrix(vectors, _row_width(vectors))
        self._lengths = self._np.sqrt(self._np.array([v.norm or 1 for v in vectors], dtype="f8"))

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return the rows that may be among the nearest."""
        np = self._np
        # INVARIANT: the matrix and the columns find the same neighbours with the same scores.
        dots = self._rows @ _dense_row(query, self._rows.shape[1])
        scores = dots / self._lengths
        least = 0.0
        if len(scores) > count:
            least = np.partition(scores, -count)[-count] - _SCORE_TIE * math.sqrt(query.norm)
        rows = np.flatnonzero((scores >= least) & (dots > 0))
        return list(map(NearRow, rows.tolist(), dots[rows].astype("i8").tolist()))


class ColumnIndex:
    """Exact search without any library, on integers as wide as the index.

    Each place is one integer with a slot of 32 bits per row. The sum of integer times value over
    the places of the query is the dot product of all rows at once. No slot overflows, because no
    partial sum of a dot product exceeds 2**24.
    """

    exact = True

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._lengths = [math.sqrt(vector.norm or 1) for vector in vectors]
        self._slots = struct.Struct(f"<{len(vectors)}I")
        self._zeros = int.from_bytes(self._slots.pack(*[_SLOT_ZERO] * len(vectors)), "little")
        places: dict[int, list[tuple[int, int]]] = {}
        for row, vector in enumerate(vectors):
            for place, value in vector.items():
                places.setdefault(place, []).append((row, value))
        self._columns: dict[int, int] = {}
        for place, cells in places.items():
            slots = [_SLOT_ZERO] * len(vectors)
            for row, value in cells:
                slots[row] += value
            self._columns[place] = int.from_bytes(self._slots.pack(*slots), "little") - self._zeros

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return the rows that may be among the nearest."""
        total = self._zeros
        for place, value in query.items():
            total += value * self._columns.get(place, 0)
        slots = self._slots.unpack(total.to_bytes(self._slots.size, "little"))
        dots = [slot - _SLOT_ZERO for slot in slots]
        scores = list(map(truediv, dots, self._lengths))
        least = heapq.nlargest(count, scores)[-1] - _SCORE_TIE * math.sqrt(query.norm)
        rows = [row for row, score in enumerate(scores) if score >= least]
        return [NearRow(row, dots[row]) for row in rows if dots[row] > 0]


class GraphIndex:
    """Search in a graph of neighbours, with usearch: fast among very many, not exact.

    The rows that it finds are scored exactly.
    """

    exact = False

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._vectors = vectors
        self._width = _row_width(vectors)
        self._graph = load_usearch().Index(ndim=self._width, metric="cos", dtype="f16")
        # One thread, because several would make the graph nondeterministic.
        for start in range(0, len(vectors), EXACT_UP_TO):
            some = vectors[start : start + EXACT_UP_TO]
            keys = load_numpy().arange(start, start + len(some))
            # Scale down for half precision; the angle does not depend on the length.
            self._graph.add(keys, _dense_matrix(some, self._width) / _MAX_LENGTH, threads=1)

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return rows that are near, most likely the nearest."""
        row = _dense_row(query, self._width)
        found = self._graph.search(row / _MAX_LENGTH, max(_MIN_CANDIDATES, 4 * count))
        keys = found.keys.tolist()
        dots = _dense_matrix([self._vectors[key] for key in keys], self._width) @ row
        near = map(NearRow, keys, dots.astype("i8").tolist())
        return [one for one in near if one.dot > 0]


def _row_width(vectors: Sequence[Vector]) -> int:
    return max(1, *(vector.size for vector in vectors))


def _dense_matrix(vectors: Sequence[Vector], width: int) -> Any:
    return load_numpy().stack([_dense_row(vector, width) for vector in vectors])


def _dense_row(vector: Vector, width: int) -> Any:
    """Return a vector as a dense array; places from `width` on are left out."""
    np = load_numpy()
    row = np.zeros(max(width, vector.size), dtype="f4")
    row[np.frombuffer(vector.place_bytes, "<u2")] = np.frombuffer(vector.value_bytes, "<i2")
    return row[:width]


class MemoryHits(NamedTuple):
    """The experiences most similar to a vector.

    `severe` is the similarity to failures of at least the given severity. `exact` says that
    nothing nearer can have been missed.
    """

    failure: Similarity
    success: Similarity
    severe: float
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
    vectors: VectorIndex

    def search(self, vector: Vector, top_k: int) -> list[_ScoredExperience]:
        hits = []
        for row, dot in self.vectors.find_nearest(vector, top_k):
            one = self.experiences[row]
            score = cosine_score(dot, vector.norm, one.vector.norm)
            hits.append(_ScoredExperience(-score, one.memory_id, one))
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
        for one, after in pairwise(self.experiences):
            if (name := one.memory_id) == after.memory_id:
                raise InputError("two experiences have this id", where=f"experience `{name}`")
        groups: dict[tuple[ActionOutcome, int], list[Experience]] = {}
        for one in self.experiences:
            severity = one.severity if one.outcome is ActionOutcome.FAILURE else 0
            groups.setdefault((one.outcome, severity), []).append(one)
        self._groups = [
            _OutcomeGroup(*key, ones, build_vector_index([one.vector for one in ones], exact_up_to))
            for key, ones in sorted(groups.items())
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
        for group in self._groups:
            hits = group.search(vector, top_k)
            (failures if group.outcome is ActionOutcome.FAILURE else successes).extend(hits)
        failures.sort()
        shown = failures[:top_k]
        worst = next((hit for hit in failures if hit.experience.severity >= min_severity), None)
        if worst is not None and worst not in shown:
            shown[-1] = worst
        return MemoryHits(
            failure=_build_similarity(shown),
            success=_build_similarity(successes),
            severe=0.0 if worst is None else -worst.reverse_score,
            exact=all(group.vectors.exact for group in self._groups),
        )


def _build_similarity(hits: Sequence[_ScoredExperience]) -> Similarity:
    neighbours = tuple(hit.neighbour for hit in hits)
    return Similarity(score=neighbours[0].score if neighbours else 0.0, top_k=neighbours)


def _one_projection(experiences: Sequence[Experience], projection: str | None) -> str | None:
    for one in experiences:
        if projection is None:
            projection = one.projection
        elif one.projection != projection:
            raise InputError(
                f"made by the projection `{one.projection}`, not by `{projection}`",
                where=f"experience `{one.memory_id}`",
                help="only vectors of one projection compare: project its request again",
            )
    return projection
