"""Three indexes that find the nearest among many vectors; all but the graph are exact.

An index returns every row that may be among the nearest with its exact dot product, and the
caller scores them. The matrix and the columns never leave out a row that belongs there, so they
agree to the last digit.
"""

import heapq
import math
import struct
from collections.abc import Iterable, Sequence
from operator import truediv
from typing import Any, NamedTuple, Protocol

from demur.memory.extras import load_numpy, load_usearch
from demur.memory.vector import MAX_NORM, Vector

__all__ = [
    "EXACT_UP_TO",
    "ColumnIndex",
    "GraphIndex",
    "MatrixIndex",
    "NearRow",
    "VectorIndex",
    "build_vector_index",
]

EXACT_UP_TO = 10_000

# Scores have six decimals: rows that tie there differ by less than this before rounding.
_TIE = 2e-6
_CANDIDATES = 64
_ZERO = 2**31
_FULL = math.sqrt(MAX_NORM)


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
            least = np.partition(scores, -count)[-count] - _TIE * math.sqrt(query.norm)
        rows = np.flatnonzero((scores >= least) & (dots > 0))
        return list(map(NearRow, rows.tolist(), dots[rows].astype("i8").tolist()))


class ColumnIndex:
    """Exact search without any library, on integers as wide as the index.

    Each place is one integer with a lane of 32 bits per row. The sum of integer times value over
    the places of the query is the dot product of all rows at once. No lane overflows, because no
    partial sum of a dot product exceeds 2**24.
    """

    exact = True

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._lengths = [math.sqrt(vector.norm or 1) for vector in vectors]
        self._lanes = struct.Struct(f"<{len(vectors)}I")
        self._zeros = int.from_bytes(self._lanes.pack(*[_ZERO] * len(vectors)), "little")
        places: dict[int, list[tuple[int, int]]] = {}
        for row, vector in enumerate(vectors):
            for place, value in vector.items():
                places.setdefault(place, []).append((row, value))
        self._columns = {place: self._pack_column(cells) for place, cells in places.items()}

    def _pack_column(self, cells: Iterable[tuple[int, int]]) -> int:
        lanes = [_ZERO] * len(self._lengths)
        for row, value in cells:
            lanes[row] += value
        return int.from_bytes(self._lanes.pack(*lanes), "little") - self._zeros

    def _dot_products(self, query: Vector) -> list[int]:
        total = self._zeros
        for place, value in query.items():
            total += value * self._columns.get(place, 0)
        lanes = self._lanes.unpack(total.to_bytes(self._lanes.size, "little"))
        return [lane - _ZERO for lane in lanes]

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return the rows that may be among the nearest."""
        dots = self._dot_products(query)
        scores = list(map(truediv, dots, self._lengths))
        least = heapq.nlargest(count, scores)[-1] - _TIE * math.sqrt(query.norm)
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
            self._graph.add(keys, _dense_matrix(some, self._width) / _FULL, threads=1)

    def find_nearest(self, query: Vector, count: int) -> list[NearRow]:
        """Return rows that are near, most likely the nearest."""
        row = _dense_row(query, self._width)
        found = self._graph.search(row / _FULL, max(_CANDIDATES, 4 * count))
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
