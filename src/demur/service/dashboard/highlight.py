"""Texts of a request with findings marked in them.

A finding has offsets and not the text they count in. They are taken to count in the first
text of the request that they fit into, the intent before all others; a text that redaction
changed is not marked at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from demur.model.finding import Finding

__all__ = ["MarkedText", "TextPiece", "mark_texts"]

_FIRST_PATHS = ("action.intent",)
_MAX_DEPTH = 12


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text; `marks` are the numbers of the findings that cover it."""

    text: str
    marks: list[int]
    label: str


class MarkedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a request, in pieces."""

    path: str
    pieces: list[TextPiece]


def mark_texts(
    request: Mapping[str, Any], findings: Sequence[Finding], removed: Sequence[str] = ()
) -> list[MarkedText]:
    """Return the texts that contain findings, each cut where a mark begins or ends.

    Findings are numbered from 1, in the order of the record.
    """
    texts = [(path, text) for path, text in _request_texts(request) if path not in removed]
    spans: dict[str, list[tuple[int, int, int, str]]] = {}
    for number, finding in enumerate(findings, start=1):
        span = finding.span
        if span is None or span.start == span.end:
            continue
        place = next((path for path, text in texts if len(text) >= span.end), None)
        if place is not None:
            spans.setdefault(place, []).append((span.start, span.end, number, finding.code))
    return [
        MarkedText(path=path, pieces=list(_cut_pieces(text, spans[path])))
        for path, text in texts
        if path in spans
    ]


def _cut_pieces(text: str, spans: list[tuple[int, int, int, str]]) -> Iterator[TextPiece]:
    edges = sorted({0, len(text), *(edge for span in spans for edge in span[:2])})
    for start, end in pairwise(edges):
        over = [span for span in spans if span[0] <= start and end <= span[1]]
        yield TextPiece(
            text=text[start:end],
            marks=[number for _, _, number, _ in over],
            label=", ".join(dict.fromkeys(code for *_, code in over)),
        )


def _request_texts(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = list(_walk_texts(request, "", 0))
    return sorted(found, key=lambda pair: pair[0] not in _FIRST_PATHS)


def _walk_texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _walk_texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        for place, inner in enumerate(value):
            yield from _walk_texts(inner, f"{path}[{place}]", depth + 1)
