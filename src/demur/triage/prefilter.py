"""Find where refusals may be, in one pass over many lines at once.

pyperscan is fastest, hyperscan next, and re2 is always there. They may differ in how many
hits they tell of one line, but never in which lines have any.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from demur.codes.line import REFUSAL_MARK
from demur.errors import MissingExtraError

__all__ = ["ENGINES", "FilterHits", "Prefilter", "FilterSearch", "build_prefilter"]

_MARK_BYTES = REFUSAL_MARK.encode()
# Tags besides the indices of literals, larger than any of them.
_EXPRESSION_TAG = 1 << 20
_MARKER_TAG = _EXPRESSION_TAG + 1


class FilterSearch(NamedTuple):
    """The literals (in any case) and expressions to search for, and whether the marker too."""

    literals: tuple[bytes, ...]
    expressions: tuple[bytes, ...] = ()
    marker: bool = False


class FilterHits(NamedTuple):
    """The end offsets of markers and of other hits, each in ascending order.

    `literals` holds the index of the literal of each other hit, or a larger number if unknown.
    """

    markers: list[int]
    others: list[int]
    literals: list[int]


class Prefilter(Protocol):
    """Finds the ends of hits. Do not share it between threads."""

    def __call__(self, data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        """Return the hits in `data[:end]`."""


def build_prefilter(search: FilterSearch, engine: str | None = None) -> Prefilter:
    """Return the fastest available prefilter, or the named one.

    Raises:
        MissingExtraError: The named engine is not installed.
    """
    for name in ENGINES if engine is None else (engine,):
        try:
            return ENGINES[name](search)
        except ImportError as error:
            missing = error
    problem = f"the search engine `{engine}` is not installed"
    raise MissingExtraError(problem, help="pip install 'demur[triage]'") from missing


def _filter_expressions(search: FilterSearch) -> list[bytes]:
    folded = (b"(?i:" + re.escape(literal) + b")" for literal in search.literals)
    return [*folded, *search.expressions]


def _sort_hits(hits: FilterHits) -> FilterHits:
    """Sort the hits; engines usually report them in order, but do not promise it."""
    if hits.others != sorted(hits.others):
        pairs = sorted(zip(hits.others, hits.literals, strict=True))
        hits.others[:] = [end for end, _ in pairs]
        hits.literals[:] = [literal for _, literal in pairs]
    hits.markers.sort()
    return hits


def _with_pyperscan(search: FilterSearch) -> Prefilter:
    pyperscan: Any = import_module("pyperscan")
    go_on = pyperscan.Scan.Continue
    flag = pyperscan.Flag.CASELESS
    patterns = [
        pyperscan.Pattern(re.escape(text), flag, tag=tag)
        for tag, text in enumerate(search.literals)
    ]
    patterns += [pyperscan.Pattern(text, tag=_EXPRESSION_TAG) for text in search.expressions]
    if search.marker:
        patterns.append(pyperscan.Pattern(_MARK_BYTES, tag=_MARKER_TAG))
    hits = FilterHits([], [], [])

    def note(found: FilterHits, tag: int, _start: int, end: int) -> Any:
        if tag == _MARKER_TAG:
            found.markers.append(end)
        else:
            found.others.append(end)
            found.literals.append(tag)
        return go_on

    scan = pyperscan.BlockDatabase(*patterns).build(hits, note).scan

    def find(data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        hits.markers.clear()
        hits.others.clear()
        hits.literals.clear()
        scan(memoryview(data)[:end])
        return _sort_hits(hits)

    return find


def _with_hyperscan(search: FilterSearch) -> Prefilter:
    hyperscan: Any = import_module("hyperscan")
    expressions = [*_filter_expressions(search), *([_MARK_BYTES] if search.marker else [])]
    tags = [*range(len(search.literals)), *[_EXPRESSION_TAG] * len(search.expressions)]
    tags += [_MARKER_TAG] if search.marker else []
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=expressions, ids=tags, elements=len(tags), flags=0)
    scratch = hyperscan.Scratch(database)

    def note(tag: int, _start: int, end: int, _flags: int, found: FilterHits) -> None:
        if tag == _MARKER_TAG:
            found.markers.append(end)
        else:
            found.others.append(end)
            found.literals.append(tag)

    def find(data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        hits = FilterHits([], [], [])
        database.scan(memoryview(data)[:end], note, context=hits, scratch=scratch)
        return _sort_hits(hits)

    return find


def _with_re2(search: FilterSearch) -> Prefilter:
    re2: Any = import_module("re2")
    options = re2.Options()
    # Logs are not always UTF-8, and invalid bytes must not stop the search.
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 64 << 20
    either: Any = re2.compile(b"|".join(_filter_expressions(search)), options)
    marks = re.compile(_MARK_BYTES)

    def find(data: bytearray | bytes | memoryview, end: int) -> FilterHits:
        whole = bytes(memoryview(data)[:end])
        markers = [found.end() for found in marks.finditer(whole)] if search.marker else []
        others = [found.end() for found in either.finditer(whole)]
        return FilterHits(markers, others, [_EXPRESSION_TAG] * len(others))

    return find


ENGINES: dict[str, Callable[[FilterSearch], Prefilter]] = {
    "pyperscan": _with_pyperscan,
    "hyperscan": _with_hyperscan,
    "re2": _with_re2,
}
