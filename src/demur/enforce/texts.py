"""Extract the texts of a value as a model reads them.

A tool returns JSON and a model writes some. In JSON a line break is two other characters and a
letter may be six, so guards search the decoded texts, not their encoding.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from demur.enforce.described import plain
from demur.errors import InputError

__all__ = ["begins_json", "texts_in"]

_MOST = 200_000
_LONGEST_JSON = 4_000_000
# JSON within JSON is parsed to this depth and left as text below it.
_DEEPEST = 3
_MOST_BEGINNINGS = 200
_DECODER = json.JSONDecoder()
_INSIDE = re.compile(r"""\{\s*"|\[\s*[\["{]""")
_BEGIN = re.compile(
    r"""\s*(?:"[^"]*\\|\{\s*"|\[\s*(?:[\["{]|(?:-?\d[\d.eE+-]*|true|false|null)\s*,))"""
)


def texts_in(value: Any) -> str:
    """Return all texts in a value, one per line; a text without JSON is returned as it is.

    Raises:
        InputError: There are too many texts, or they are nested too deep.
    """
    if not isinstance(value, str):
        return "\n".join(_leaves(plain(value, opaque=str), _DEEPEST))
    if "\\" not in value:
        return value
    held = _json_in(value)
    found = list(_embedded(value)) if held is None else [held]
    # Keep the raw text too: fake chat turns are recognised only with the text around them.
    return "\n".join([value, *(text for one in found for text in _leaves(one, _DEEPEST))])


def begins_json(text: str) -> bool:
    """Return whether a text, up to its first escape, may be the beginning of JSON."""
    return _BEGIN.match(text) is not None


def _embedded(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists within a text, such as in a code fence."""
    if len(text) > _LONGEST_JSON:
        return
    end = 0
    for found in islice(_INSIDE.finditer(text), _MOST_BEGINNINGS):
        if found.start() < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _leaves(value: Any, depth: int) -> Iterator[str]:
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count + len(waiting) > _MOST:
            raise InputError(f"the value has more than {_MOST} parts")
        if isinstance(one, Mapping):
            # Reversed, so that the first is popped next.
            waiting += [part for pair in reversed([*one.items()]) for part in reversed(pair)]
        elif isinstance(one, list | tuple):
            waiting += reversed(one)
        elif isinstance(one, str):
            held = _json_in(one) if depth else None
            if held is None:
                yield one
            else:
                yield from _leaves(held, depth - 1)
        elif one is not None:
            yield str(one)


def _json_in(text: str) -> Any:
    """Return the value of a text that is a JSON object, list or string, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _LONGEST_JSON or inside[0] + inside[-1] not in {"{}", "[]", '""'}:
        return None
    try:
        return json.loads(inside)
    except (ValueError, RecursionError):
        return None
