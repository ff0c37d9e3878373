"""What a model would read of a result: every text in it, in its order."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

__all__ = ["text_in"]

_BINARY = frozenset({"image", "audio"})
_TEXTUAL = ("text/", "application/json", "application/xml", "application/javascript")
# Names of members give no orders; sentences do.
_LONGEST_NAME = 40


def text_in(value: Any) -> str:
    """Return all texts within a JSON value, one below the other.

    Blocks of text come first, because a model reads them as one. Keys count where they are
    more than a name. Pictures and sounds are left out; a blob that says it is text is read.
    """
    said: list[str] = []
    beside: list[str] = []
    # With a stack of its own: how deep a message is, its sender decides.
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            beside.append(one)
        elif isinstance(one, list):
            stack.extend(reversed(one))
        elif isinstance(one, dict):
            if one.get("type") == "text" and isinstance(one.get("text"), str):
                said.append(one["text"])
                one = {name: item for name, item in one.items() if name not in {"type", "text"}}
            stack.extend(reversed(list(_members(one))))
    return "\n".join(filter(None, (*said, *beside)))


def _members(block: dict[str, Any]) -> Iterator[Any]:
    for name, item in block.items():
        if name == "data" and block.get("type") in _BINARY and isinstance(item, str):
            continue
        if " " in name or len(name) > _LONGEST_NAME:
            yield name
        is_blob = name == "blob" and isinstance(item, str)
        yield _blob(item, block.get("mimeType")) if is_blob else item


def _blob(encoded: str, kind: Any) -> str:
    if not isinstance(kind, str) or not kind.startswith(_TEXTUAL):
        return ""
    try:
        return base64.b64decode(encoded, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return encoded
