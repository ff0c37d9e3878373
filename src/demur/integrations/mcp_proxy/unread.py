"""Salvage the ids of messages in an unreadable line, so that nobody waits for ever."""

import json
import re
from typing import Any

__all__ = ["salvage_messages"]

# The usual start of a message, for lines that are no JSON at all.
_MESSAGE_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    rb'(-?\d{1,15}|"[^"\\\x00-\x1f]{0,200}")\s*,\s*"(result|error|method)"'
)


def salvage_messages(raw: bytes) -> list[Any]:
    """Return the messages that an unreadable line seems to hold; only their ids are reliable."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        head = _MESSAGE_HEAD.match(raw)
        if head is None:
            return []
        identity = json.loads(head[1].decode("utf-8", "replace"))
        return [{"id": identity, head[2].decode(): None}]
    return value if isinstance(value, list) else [value]
