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

from demur.memory.extras import numpy, usearch
from demur.memory.vector import LARGEST_NORM, Vector

__all__ = ["EXACT_UP_TO", "Columns", "Graph", "Matrix", "Near", "Shelf", "shelve"]

EXACT_UP_TO = 10_000

# Scores have six decimals: rows that tie there differ by less than this before rounding.
_TIE = 2e-6
_CANDIDATES = 64
_ZERO = 2**31
_FULL = math.sqrt(LARGEST_NORM)


class Near(NamedTuple):
    """A row that may be among the nearest, and its dot product with the query."""

    row: int
    dot: int


class Shelf(Protocol):
    """Vectors that are searched together."""

    @property
    def exact(self) -> bool:
        """Whether no row can be missed."""

    def nearest(self, query: Vector, count: int) -> list[Near]:
        """Return at least the `count` nearest rows with a positive dot product, in any order."""


def shelve(vectors: Sequence[Vector], exact_up_to: int = EXACT_UP_TO) -> Shelf:
    """Return the best index for the vectors that the installed libraries allow."""
    if len(vectors) > exact_up_to and usearch() is not None:
        return Graph(vectors)
    return Columns(vectors) if numpy() is None else Matrix(vectors)


class Matrix:
    """Exact search by one matrix product, with numpy."""

    exact = True

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._np = numpy()
        self._rows = _dense(vectors, _width(vectors))
        self._lengths = self._np.sqrt(self._np.array([v.norm or 1 for v in vectors], dtype="f8"))

    def nearest(self, query: Vector, count: int) -> list[Near]:
        """Return the rows that may be among the nearest."""
        np = self._np
        # INVARIANT: the matrix and the columns find the same neighbours with the same scores.
        dots = self._rows @ _row(query, self._rows.shape[1])
        scores = dots / self._lengths
        least = 0.0
        if len(scores) > count:
            least = np.partition(scores, -count)[-count] - _TIE * math.sqrt(query.norm)
        rows = np.flatnonzero((scores >= least) & (dots > 0))
        return list(map(Near, rows.tolist(), dots[rows].astype("i8").tolist()))


class Columns:
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
        self._columns = {place: self._column(cells) for place, cells in places.items()}

    def _column(self, cells: Iterable[tuple[int, int]]) -> int:
        lanes = [_ZERO] * len(self._lengths)
        for row, value in cells:
            lanes[row] += value
        return int.from_bytes(self._lanes.pack(*lanes), "little") - self._zeros

    def _dots(self, query: Vector) -> list[int]:
        total = self._zeros
        for place, value in query.items():
            total += value * self._columns.get(place, 0)
        lanes = self._lanes.unpack(total.to_bytes(self._lanes.size, "little"))
        return [lane - _ZERO for lane in lanes]

    def nearest(self, query: Vector, count: int) -> list[Near]:
        """Return the rows that may be among the nearest."""
        dots = self._dots(query)
        scores = list(map(truediv, dots, self._lengths))
        least = heapq.nlargest(count, scores)[-1] - _TIE * math.sqrt(query.norm)
        rows = [row for row, score in enumerate(scores) if score >= least]
        return [Near(row, dots[row]) for row in rows if dots[row] > 0]


class Graph:
    """Search in a graph of neighbours, with usearch: fast among very many, not exact.

    The rows that it finds are scored exactly.
    """

    exact = False

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._vectors = vectors
        self._width = _width(vectors)
        self._graph = usearch().Index(ndim=self._width, metric="cos", dtype="f16")
        # One thread, because several would make the graph nondeterministic.
        for start in range(0, len(vectors), EXACT_UP_TO):
            some = vectors[start : start + EXACT_UP_TO]
            keys = numpy().arange(start, start + len(some))
            # Scale down for half precision; the angle does not depend on the length.
            self._graph.add(keys, _dense(some, self._width) / _FULL, threads=1)

    def nearest(self, query: Vector, count: int) -> list[Near]:
        """Return rows that are near, most likely the nearest."""
        row = _row(query, self._width)
        found = self._graph.search(row / _FULL, max(_CANDIDATES, 4 * count))
        keys = found.keys.tolist()
        dots = _dense([self._vectors[key] for key in keys], self._width) @ row
        near = map(Near, keys, dots.astype("i8").tolist())
        return [one for one in near if one.dot > 0]


def _width(vectors: Sequence[Vector]) -> int:
    return max(1, *(vector.size for vector in vectors))


def _dense(vectors: Sequence[Vector], width: int) -> Any:
    return numpy().stack([_row(vector, width) for vector in vectors])


def _row(vector: Vector, width: int) -> Any:
    """Return a vector as a dense array; places from `width` on are left out."""
    np = numpy()
    row = np.zeros(max(width, vector.size), dtype="f4")
    row[np.frombuffer(vector.place_bytes, "<u2")] = np.frombuffer(vector.value_bytes, "<i2")
    return row[:width]
