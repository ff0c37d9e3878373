"""The content of a server's results that a model reads, in wire format.

The proxy reads results in the same way, so both refuse the same content.
"""

import json
from typing import Any

from demur.integrations.mcp_proxy.texts import readable

__all__ = ["read_of", "returned_of", "wire"]

_DATA = "structuredContent"
# Members of results and blocks that the protocol itself sets.
_RESULT = {"isError": (False, True), "resultType": ("complete",)}
_BLOCK = {"type": ("text", "image", "audio", "resource", "resource_link")}


def wire(value: Any) -> dict[str, Any]:
    """Return a result, or a part of one, in wire format."""
    if value is None or isinstance(value, dict):
        return value or {}
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def returned_of(said: dict[str, Any]) -> Any:
    """Return a tool's output: its text, its data unless the text repeats it, and the rest."""
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
    """Return the content of a resource or a prompt."""
    return readable(said)


def _without(value: Any, known: dict[str, tuple[Any, ...]]) -> Any:
    """Return a value without empty members and default values."""
    if not isinstance(value, dict):
        return value
    return {
        name: item
        for name, item in value.items()
        if item not in (None, [], {}) and item not in known.get(name, ())
    }


def _says(text: str, data: Any) -> bool:
    """Return whether a text repeats the data, as servers do for clients that read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False
