"""What a model reads of what a server returns, be it on the wire or as the SDK's objects."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["block_texts", "returned_of"]

# What of a link to a resource a model may read: its place is said by the server, that of a
# resource by its client.
_LINK = ("text", "name", "title", "description", "uri")
_TEXT = ("text",)


def returned_of(blocks: Iterable[Any] | None, data: Any) -> Any:
    """Return what a tool returned, in blocks and as data; once, if they say the same."""
    text = "\n".join(block_texts(blocks or ()))
    return text if data is None or _says(text, data) else [text, data]


def block_texts(blocks: Iterable[Any]) -> Iterator[str]:
    """Yield the texts among blocks of content: embedded resources with them, and links."""
    for block in blocks:
        kind = _member(block, "type")
        place = _member(block, "resource") if kind == "resource" else block
        texts = (_member(place, name) for name in (_LINK if kind == "resource_link" else _TEXT))
        yield from (str(text) for text in texts if text is not None)


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _says(text: str, data: Any) -> bool:
    """Return whether a text is the data, as a server repeats it for those who read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False
