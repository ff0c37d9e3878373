"""The content of a server's results that a model reads, in wire format.

The proxy reads results in the same way, so both refuse the same content.
"""

import json
from typing import Any

from demur.integrations.mcp_proxy.texts import readable_content

__all__ = ["content_texts", "returned_texts", "to_wire"]

_DATA_MEMBER = "structuredContent"
# Members of results and blocks that the protocol itself sets.
_RESULT_DEFAULTS = {"isError": (False, True), "resultType": ("complete",)}
_BLOCK_DEFAULTS = {"type": ("text", "image", "audio", "resource", "resource_link")}


def to_wire(value: Any) -> dict[str, Any]:
    """Return a result, or a part of one, in wire format."""
    if value is None or isinstance(value, dict):
        return value or {}
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def returned_texts(said: dict[str, Any]) -> Any:
    """Return a tool's output: its text, its data unless the text repeats it, and the rest."""
    text, rest = readable_content(said)
    data = rest.pop(_DATA_MEMBER, None)
    found = [text] if data is None or _repeats_data(text, data) else [text, data]
    blocks = rest.get("content")
    if isinstance(blocks, list):
        rest["content"] = [left for one in blocks if (left := _drop_defaults(one, _BLOCK_DEFAULTS))]
    if rest := _drop_defaults(rest, _RESULT_DEFAULTS):
        found.append(rest)
    return text if found == [text] else found


def content_texts(said: dict[str, Any]) -> list[Any]:
    """Return the content of a resource or a prompt."""
    return readable_content(said)


def _drop_defaults(value: Any, known: dict[str, tuple[Any, ...]]) -> Any:
    """Return a value without empty members and default values."""
    if not isinstance(value, dict):
        return value
    return {
        name: item
        for name, item in value.items()
        if item not in (None, [], {}) and item not in known.get(name, ())
    }


def _repeats_data(text: str, data: Any) -> bool:
    """Return whether a text repeats the data, as servers do for clients that read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False
