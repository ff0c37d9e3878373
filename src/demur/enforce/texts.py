"""The texts in a value, as a model reads them.

A tool returns JSON, a model writes some: in it a line break is two other characters, and a
letter may be six. Whoever looks for an order or a name looks at what it says, not at how it
is written down.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from demur.enforce.described import plain
from demur.errors import InputError

__all__ = ["begins_json", "texts_in"]

_MOST = 200_000
_LONGEST_JSON = 4_000_000
# JSON in JSON is read so often, and left as a text beyond.
_DEEPEST = 3
_BEGIN = re.compile(r"""\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[]["{\-\dtfn]|$))""")


def texts_in(value: Any) -> str:
    """Return all texts in a value, one a line; a text that is no JSON is returned as it is.

    Raises:
        InputError: There are too many of them, or they lie too deep.
    """
    if not isinstance(value, str):
        return "\n".join(_leaves(plain(value, opaque=str), _DEEPEST))
    held = _json_in(value)
    if held is None or "\\" not in value:
        return value
    # As it is, too: an imitation of a chat's turns is one only with all around it.
    return "\n".join([value, *_leaves(held, _DEEPEST)])


def begins_json(text: str) -> bool:
    """Return whether a text that goes on may become the JSON of an object or list."""
    return _BEGIN.match(text) is not None


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
    """Return the object or list that a text is the JSON of, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _LONGEST_JSON or inside[0] + inside[-1] not in {"{}", "[]"}:
        return None
    try:
        return json.loads(inside)
    except (ValueError, RecursionError):
        return None
