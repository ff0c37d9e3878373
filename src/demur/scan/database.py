"""All patterns of a rule set in one database: which match, and where.

One pass of a multi-pattern engine says which patterns may match in which chunk of the text;
re2 then finds the spans of these few, when somebody asks for them. So the engine decides
the speed and never the result.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from demur.scan.pattern import Pattern
from demur.scan.re2_engine import Re2Engine, searcher

__all__ = ["CHUNK", "Database", "Engine", "EngineType", "Survey", "default_engine"]

CHUNK = 16 << 10
# Spans are remembered up to this many bytes of text, and found again in longer ones.
_REMEMBERED = 1 << 20


class Engine(Protocol):
    """Says which of its expressions match somewhere in a text, faster than one by one."""

    name: str

    def matching(self, data: bytes) -> list[int]:
        """Return the indices of expressions that may match: all that do, and seldom another."""


class EngineType(Protocol):
    """A sort of engine."""

    # Patterns up to this size it takes as they are; of larger ones, what they require.
    largest: int

    def __call__(self, expressions: Sequence[bytes]) -> Engine:
        """Return an engine that looks for the expressions."""


def default_engine() -> EngineType:
    """Return hyperscan where it is installed, and re2 elsewhere."""
    try:
        module = import_module("demur.scan.hyperscan_engine")
    except ImportError:
        return Re2Engine
    return cast("EngineType", module.HyperscanEngine)


class Database:
    """Patterns, compiled together when first needed. Safe to share between threads."""

    def __init__(
        self,
        patterns: Iterable[Pattern],
        *,
        engine: EngineType | None = None,
        chunk: int = CHUNK,
    ) -> None:
        self.patterns = tuple(patterns)
        self.width = max((pattern.width for pattern in self.patterns), default=0)
        self._chunk = max(chunk, 4 * self.width)
        self._type = engine
        self._lock = threading.Lock()
        self._built: _Built | None = None

    @property
    def engine(self) -> Engine:
        """What looks for the patterns; compiled on first use."""
        return self._build().engine

    def _build(self) -> "_Built":
        with self._lock:
            if self._built is None:
                self._built = _build(self.patterns, self._type or default_engine())
            return self._built

    def survey(self, data: bytes) -> "Survey":
        """Return which patterns may match in folded text, ready to say where."""
        # INVARIANT: the engine decides the speed and never the result.
        engine, under = self._build()
        places: dict[int, list[_Block]] = {}
        for block in self._blocks(len(data)):
            part = data if block.last - block.first == len(data) else data[block.first : block.last]
            found = engine.matching(part)
            for clause in found:
                for index, others in under[clause]:
                    if not others or others.issubset(found):
                        places.setdefault(index, []).append(block)
        return Survey(self.patterns, data, places)

    def _blocks(self, size: int) -> "Iterator[_Block]":
        for start in range(0, size, self._chunk):
            stop = min(start + self._chunk, size)
            yield _Block(start, stop, max(start - 1, 0), min(stop + self.width + 1, size))


class _Block(NamedTuple):
    """A chunk, in which matches begin, and the part to look at for them.

    It is wider by the widest match, and by one byte on either side, so that the edges of
    words are seen as they are.
    """

    start: int
    stop: int
    first: int
    last: int


class Survey:
    """Which patterns may match in a text. For one thread."""

    __slots__ = ("_data", "_known", "_patterns", "candidates")

    def __init__(
        self, patterns: Sequence[Pattern], data: bytes, places: dict[int, list[_Block]]
    ) -> None:
        self.candidates = places
        self._patterns = patterns
        self._data = data
        self._known: dict[int, list[tuple[int, int]]] = {}

    def spans(self, index: int) -> Iterable[tuple[int, int]]:
        """Return where a pattern matches: leftmost, then longest, in order and not overlapping."""
        if len(self._data) > _REMEMBERED:
            return self._spans(index)
        if index not in self._known:
            self._known[index] = list(self._spans(index))
        return self._known[index]

    def _spans(self, index: int) -> Iterator[tuple[int, int]]:
        search = searcher(self._patterns[index].expression)
        done = 0
        for start, stop, first, last in self.candidates.get(index, ()):
            block = self._data[first:last]
            for found in search.finditer(block, max(start, done) - first):
                begin, end = found.span()
                if begin + first >= stop:
                    break
                done = end + first
                yield begin + first, done


class _Built(NamedTuple):
    """An engine, and for each of its expressions the patterns that may match if it does.

    Each pattern stands once, with the other expressions that it needs.
    """

    engine: Engine
    under: tuple[tuple[tuple[int, frozenset[int]], ...], ...]


def _build(patterns: Sequence[Pattern], kind: EngineType) -> _Built:
    numbers: dict[bytes, int] = {}
    needs: list[list[int]] = []
    for pattern in patterns:
        whole = pattern.size <= kind.largest
        wanted = (pattern.expression,) if whole else pattern.required.clauses
        needs.append([numbers.setdefault(clause, len(numbers)) for clause in wanted])
    under: list[list[tuple[int, frozenset[int]]]] = [[] for _ in numbers]
    for index, (first, *others) in enumerate(needs):
        under[first].append((index, frozenset(others)))
    return _Built(kind(list(numbers)), tuple(map(tuple, under)))
