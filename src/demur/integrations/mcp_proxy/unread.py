"""What can still be told of a line that cannot be read: who waits for which answer in it.

Nothing of it passes. But somebody asked, and would wait for ever.
"""

import json
import re
from typing import Any

__all__ = ["loosely"]

# How most messages begin, for lines that are no JSON at all.
_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    rb'(-?\d{1,15}|"[^"\\\x00-\x1f]{0,200}")\s*,\s*"(result|error|method)"'
)


def loosely(raw: bytes) -> list[Any]:
    """Return the messages in a line, or what they seem to be; only their ids are of use."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        head = _HEAD.match(raw)
        if head is None:
            return []
        identity = json.loads(head[1].decode("utf-8", "replace"))
        return [{"id": identity, head[2].decode(): None}]
    return value if isinstance(value, list) else [value]
