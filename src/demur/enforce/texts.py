"""The texts in a value, as a model reads them.

A tool returns JSON, a model writes some: in it a line break is two other characters, and a
letter may be six. Whoever looks for an order or a name looks at what it says, not at how it
is written down.
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
# JSON in JSON is read so often, and left as a text beyond.
_DEEPEST = 3
_MOST_BEGINNINGS = 200
_DECODER = json.JSONDecoder()
_INSIDE = re.compile(r"""\{\s*"|\[\s*[\["{]""")
_BEGIN = re.compile(
    r"""\s*(?:"[^"]*\\|\{\s*"|\[\s*(?:[\["{]|(?:-?\d[\d.eE+-]*|true|false|null)\s*,))"""
)


def texts_in(value: Any) -> str:
    """Return all texts in a value, one a line; a text without JSON in it is returned as it is.

    Raises:
        InputError: There are too many of them, or they lie too deep.
    """
    if not isinstance(value, str):
        return "\n".join(_leaves(plain(value, opaque=str), _DEEPEST))
    if "\\" not in value:
        return value
    held = _json_in(value)
    found = list(_embedded(value)) if held is None else [held]
    # As it is, too: an imitation of a chat's turns is one only with all around it.
    return "\n".join([value, *(text for one in found for text in _leaves(one, _DEEPEST))])


def begins_json(text: str) -> bool:
    """Return whether a text, up to its first escape, may become the JSON of something."""
    return _BEGIN.match(text) is not None


def _embedded(text: str) -> Iterator[Any]:
    """Yield the objects and lists whose JSON stands within a text, such as behind a fence."""
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
            raise InputError(f"there are more than {_MOST} parts in it")
        if isinstance(one, Mapping):
            # From the last to the first, so that the first is next.
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
    """Return the object, list or text that a text is the JSON of, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _LONGEST_JSON or inside[0] + inside[-1] not in {"{}", "[]", '""'}:
        return None
    try:
        return json.loads(inside)
    except (ValueError, RecursionError):
        return None
