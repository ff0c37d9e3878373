"""Search a text for all patterns of a rule set at once.

One pass of a multi-pattern engine says which patterns may match in which chunk of the text; re2
then finds the spans of these few on request. So the engine decides the speed and never the
result.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

import re2

from demur.scan.cache import require_loading
from demur.scan.pattern import Pattern

# re2 builds the automaton while matching; with too little memory it starts over.
_RE2_MEMORY = 256 << 20


def _re2_options(*, longest_match: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    options.longest_match = longest_match
    options.max_mem = _RE2_MEMORY
    return options


@lru_cache(maxsize=4096)
def compile_searcher(expression: bytes) -> Any:
    """Return a compiled expression whose matches are the leftmost and the longest."""
    return re2.compile(expression, _re2_options(longest_match=True))


class Re2Engine:
    """Finds which expressions match in a text. Safe to share between threads."""

    name = "re2"
    # The automaton is built while matching, and stays small for words alone.
    max_pattern_size = 0

    def __init__(
        self, expressions: Sequence[bytes], *, presence_only: Collection[int] = ()
    ) -> None:
        del presence_only  # It never reports places.
        self._set = re2.Set.SearchSet(_re2_options(longest_match=False))
        for expression in expressions:
            self._set.Add(expression)
        self._set.Compile()

    def find_matching(self, data: bytes) -> dict[int, list[int]]:
        """Return the indices of the expressions that match, without places."""
        return {index: [] for index in sorted(self._set.Match(data) or ())}


class SearchWindow(NamedTuple):
    """The stretch of `data` in which matches may begin; it may reach beyond the text."""

    data: bytes
    start: int
    end: int

    def find_spans(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        """Yield the matches that begin in the stretch, in order."""
        # One more byte on either side, so that word boundaries match correctly.
        first = max(self.start - 1, 0)
        part = self.data[first : self.end + pattern.width + 1]
        begin = max(self.start, 0) - first
        for found in compile_searcher(pattern.expression).finditer(part, begin):
            start, end = found.span()
            if start + first >= self.end:
                return
            yield start + first, end + first

    def has_match(self, pattern: Pattern) -> bool:
        """Return whether a match begins in the stretch."""
        return next(self.find_spans(pattern), None) is not None


CHUNK_SIZE = 16 << 10
# Spans are cached for texts up to this many bytes, and searched again in longer ones.
_REMEMBERED = 1 << 20
# A pattern is searched in up to this many stretches of a chunk; more are merged.
_MAX_STRETCHES = 8

_Stretch = tuple[int, int]
_Places = dict[int, list[_Stretch]]
_Expressions = Sequence[bytes]


class ScanEngine(Protocol):
    """Finds which of many expressions match in a text, faster than one by one."""

    name: str

    def find_matching(self, data: bytes) -> Mapping[int, Sequence[int]]:
        """Return the indices of expressions that may match: all that do, and seldom another.

        Each comes with the ends of its matches, in any order; none if they are not known.
        """


class ScanEngineType(Protocol):
    """A constructor of engines."""

    # Larger patterns are replaced by the words they require.
    max_pattern_size: int

    def __call__(
        self, expressions: Sequence[bytes], *, presence_only: Collection[int] = ()
    ) -> ScanEngine:
        """Return an engine for the expressions; those in `presence_only` need no places."""


def choose_engine() -> ScanEngineType:
    """Return hyperscan where it is installed, and re2 elsewhere."""
    try:
        module = import_module("demur.scan.hyperscan_engine")
    except ImportError:
        return Re2Engine
    return cast("ScanEngineType", module.HyperscanEngine)


class PatternDatabase:
    """Patterns, compiled together when first needed. Safe to share between threads."""

    def __init__(
        self,
        patterns: Iterable[Pattern],
        *,
        engine: ScanEngineType | None = None,
        chunk: int = CHUNK_SIZE,
        presence_only: bool = False,
    ) -> None:
        """Take the patterns; with `presence_only`, spans are not needed."""
        self.patterns = tuple(patterns)
        self._presence_only = presence_only
        self.width = max((pattern.width for pattern in self.patterns), default=0)
        self._chunk = max(chunk, 4 * self.width)
        self._engine_type = engine
        self._lock = threading.Lock()
        self._compiled: _CompiledPatterns | None = None

    @property
    def engine(self) -> ScanEngine:
        """The engine; compiled on first use."""
        return self._compile().engine

    def _compile(self) -> "_CompiledPatterns":
        if self._compiled is not None:
            return self._compiled
        require_loading()
        with self._lock:
            if self._compiled is None:
                engine, vague = self._engine_type or choose_engine(), self._presence_only
                self._compiled = _compile_patterns(self.patterns, engine, presence_only=vague)
            return self._compiled

    def find_candidates(self, data: bytes) -> "ScanCandidates":
        """Return which patterns may match in folded text, and where they may begin."""
        # INVARIANT: the engine decides the speed and never the result.
        places: _Places = {}
        for start in range(0, len(data) or 1, self._chunk):
            stop = min(start + self._chunk, len(data))
            block = _ScanBlock(start, stop, max(start - 1, 0))
            self._scan(data[block.first : stop + self.width + 1], block, places)
        return ScanCandidates(self.patterns, data, places)

    def find_present(self, data: bytes) -> set[int]:
        """Return which patterns may match in folded text, without places."""
        engine, under = self._compile()
        found = engine.find_matching(data)
        return {
            index
            for clause in found
            for index, others in under[clause]
            if not others or others.issubset(found)
        }

    def _scan(self, part: bytes, block: "_ScanBlock", places: _Places) -> None:
        """Add the places where patterns may begin in one block."""
        engine, under = self._compile()
        found = engine.find_matching(part)
        for clause, ends in found.items():
            for index, others in under[clause]:
                if not others or others.issubset(found):
                    near = block.candidate_stretches(ends, self.patterns[index].width)
                    places.setdefault(index, []).extend(near)


class _ScanBlock(NamedTuple):
    """A chunk in which matches may begin, and where the searched part begins.

    That part is wider by the widest match, and by one byte on either side, so that word
    boundaries match correctly.
    """

    start: int
    stop: int
    first: int

    def candidate_stretches(self, ends: Sequence[int], width: int) -> list[_Stretch]:
        """Return where a match of this width may begin, given the ends of required parts."""
        if not ends:
            return [(self.start, self.stop)]
        joined: list[_Stretch] = []
        for end in sorted(ends) if len(ends) > 1 else ends:
            start = max(self.first + end - width, self.start)
            stop = min(self.first + end, self.stop)
            if joined and (start <= joined[-1][1] or len(joined) == _MAX_STRETCHES):
                start, _ = joined.pop()
            if start < stop:
                joined.append((start, stop))
        return joined


class ScanCandidates:
    """Which patterns may match in a text, and where they may begin. For one thread."""

    __slots__ = ("_data", "_known", "_patterns", "candidates")

    def __init__(self, patterns: Sequence[Pattern], data: bytes, places: _Places) -> None:
        self.candidates = places
        self._patterns = patterns
        self._data = data
        self._known: dict[int, list[tuple[int, int]]] = {}

    def find_spans(self, index: int) -> Iterable[tuple[int, int]]:
        """Return where a pattern matches: leftmost, then longest, in order and not overlapping."""
        if len(self._data) > _REMEMBERED:
            return self._search_spans(index)
        if index not in self._known:
            self._known[index] = list(self._search_spans(index))
        return self._known[index]

    def _search_spans(self, index: int) -> Iterator[tuple[int, int]]:
        pattern = self._patterns[index]
        done = 0
        for start, stop in self.candidates.get(index, ()):
            for span in SearchWindow(self._data, max(start, done), stop).find_spans(pattern):
                done = span[1]
                yield span


class _CompiledPatterns(NamedTuple):
    """An engine, and for each of its expressions the patterns that may match if it does.

    Each pattern stands once, with the other expressions that it needs.
    """

    engine: ScanEngine
    patterns_by_expression: tuple[tuple[tuple[int, frozenset[int]], ...], ...]


def _compile_patterns(
    patterns: Sequence[Pattern], engine_type: ScanEngineType, *, presence_only: bool
) -> _CompiledPatterns:
    numbers: dict[bytes, int] = {}
    needs: list[list[int]] = []
    vague: set[int] = set()
    for pattern in patterns:
        small = pattern.index.core_size <= engine_type.max_pattern_size
        clauses = (pattern.index.core,) if small else pattern.index.required_words.clauses
        needs.append([numbers.setdefault(clause, len(numbers)) for clause in clauses])
        # Single words are frequent, so their places are not recorded.
        vague.update(() if small and not presence_only else needs[-1])
    under: list[list[tuple[int, frozenset[int]]]] = [[] for _ in numbers]
    for index, (first, *others) in enumerate(needs):
        under[first].append((index, frozenset(others)))
    engine = engine_type(list(numbers), presence_only=vague)
    return _CompiledPatterns(engine, tuple(map(tuple, under)))
