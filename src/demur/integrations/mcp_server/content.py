"""What a model reads of what a server returns, by the form that it has on the wire.

The proxy reads results in the same way: what it refuses, the middlewares refuse as well.
"""

import json
from typing import Any

from demur.integrations.mcp_proxy.texts import readable

__all__ = ["read_of", "returned_of", "wire"]

_DATA = "structuredContent"
# What the protocol itself says of a result and of its blocks.
_RESULT = {"isError": (False, True), "resultType": ("complete",)}
_BLOCK = {"type": ("text", "image", "audio", "resource", "resource_link")}


def wire(value: Any) -> dict[str, Any]:
    """Return a result, or a part of one, as it goes over the wire."""
    if value is None or isinstance(value, dict):
        return value or {}
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def returned_of(said: dict[str, Any]) -> Any:
    """Return what a tool returned: its text, then data, if that says more, and all the rest."""
    text, rest = readable(said)
    data = rest.pop(_DATA, None)
    found = [text] if data is None or _says(text, data) else [text, data]
    blocks = rest.get("content")
    if isinstance(blocks, list):
        rest["content"] = [left for one in blocks if (left := _without(one, _BLOCK))]
    if rest := _without(rest, _RESULT):
        found.append(rest)
    return text if found == [text] else found


def read_of(said: dict[str, Any]) -> list[Any]:
    """Return what stands in a resource or a prompt."""
    return readable(said)


def _without(value: Any, known: dict[str, tuple[Any, ...]]) -> Any:
    """Return a value without what is empty, or says what it always does."""
    if not isinstance(value, dict):
        return value
    return {
        name: item
        for name, item in value.items()
        if item not in (None, [], {}) and item not in known.get(name, ())
    }


def _says(text: str, data: Any) -> bool:
    """Return whether a text is the data, as a server repeats it for those who read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False
