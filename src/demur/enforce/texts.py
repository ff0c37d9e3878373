"""Extract the texts of a value as a model reads them.

A tool returns JSON and a model writes some. In JSON a line break is two other characters and a
letter may be six, so guards search the decoded texts, not their encoding.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from demur.enforce.described import to_json_value
from demur.errors import InputError

__all__ = ["begins_json", "extract_texts"]

_MAX_PARTS = 200_000
_MAX_JSON_LENGTH = 4_000_000
# JSON within JSON is parsed to this depth and left as text below it.
_MAX_JSON_DEPTH = 3
_MAX_JSON_STARTS = 200
_DECODER = json.JSONDecoder()
_INSIDE = re.compile(r"""\{\s*"|\[\s*[\["{]""")
_BEGIN = re.compile(
    r"""\s*(?:"[^"]*\\|\{\s*"|\[\s*(?:[\["{]|(?:-?\d[\d.eE+-]*|true|false|null)\s*,))"""
)


def extract_texts(value: Any) -> str:
    """Return all texts in a value, one per line; a text without JSON is returned as it is.

    Raises:
        InputError: There are too many texts, or they are nested too deep.
    """
    if not isinstance(value, str):
        return "\n".join(_leaf_texts(to_json_value(value, opaque=str), _MAX_JSON_DEPTH))
    if "\\" not in value:
        return value
    held = _parse_json(value)
    found = list(_embedded_json(value)) if held is None else [held]
    # Keep the raw text too: fake chat turns are recognised only with the text around them.
    return "\n".join(
        [value, *(text for one in found for text in _leaf_texts(one, _MAX_JSON_DEPTH))]
    )


def begins_json(text: str) -> bool:
    """Return whether a text, up to its first escape, may be the beginning of JSON."""
    return _BEGIN.match(text) is not None


def _embedded_json(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists within a text, such as in a code fence."""
    if len(text) > _MAX_JSON_LENGTH:
        return
    end = 0
    for found in islice(_INSIDE.finditer(text), _MAX_JSON_STARTS):
        if found.start() < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _leaf_texts(value: Any, depth: int) -> Iterator[str]:
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count + len(waiting) > _MAX_PARTS:
            raise InputError(f"the value has more than {_MAX_PARTS} parts")
        if isinstance(one, Mapping):
            # Reversed, so that the first is popped next.
            waiting += [part for pair in reversed([*one.items()]) for part in reversed(pair)]
        elif isinstance(one, list | tuple):
            waiting += reversed(one)
        elif isinstance(one, str):
            held = _parse_json(one) if depth else None
            if held is None:
                yield one
            else:
                yield from _leaf_texts(held, depth - 1)
        elif one is not None:
            yield str(one)


def _parse_json(text: str) -> Any:
    """Return the value of a text that is a JSON object, list or string, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _MAX_JSON_LENGTH or inside[0] + inside[-1] not in {"{}", "[]", '""'}:
        return None
    try:
        return json.loads(inside)
    except (ValueError, RecursionError):
        return None
