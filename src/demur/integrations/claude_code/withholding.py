"""A tool's output without what was in it, in the shape that Claude Code expects.

It keeps the original if a replacement does not fit the tool's own schema. So the shape stays:
every text is replaced, except the names by which a tool tells its kinds of output apart.
Pictures and documents become texts where texts may stand, or else an empty picture. Needs the
standard library alone.
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

__all__ = ["withheld"]

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_/+.-]{0,29}")
_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]{0,39}")
# Kinds of message parts that are not text.
_MEDIA = ("image", "audio", "video", "document", "resource", "file", "pdf")
_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
_FILES = (*_MEDIA, "notebook", "parts")
_DATA = ("base64", "data", "blob", "image_data")
_MEDIA_TYPES = ("media_type", "mediaType", "mimeType", "type")


def withheld(output: Any, text: str, known: Collection[object] = ()) -> Any:
    """Return `output` with `text` in place of every text in it; empty ones stay empty.

    `kept_texts` may stay because the agent wrote them itself, like a path. Pictures and documents
    become texts where texts are allowed, or else an empty picture.
    """
    return _Withheld(text, known).of(output)


class _Withheld(NamedTuple):
    text: str
    known: Collection[object]

    def of(self, output: Any) -> Any:
        # INVARIANT: the replacement keeps no text of the output, except kinds and kept texts.
        if isinstance(output, str):
            return output if not output or output in self.known else self.text
        if isinstance(output, list):
            return [self._part(item) for item in output]
        if isinstance(output, dict):
            return self._file(output) or self._members(output)
        return output

    def _part(self, item: Any) -> Any:
        """Return the replacement of a list item: a text for media."""
        if isinstance(item, dict) and item.get("type") in _MEDIA:
            return {"type": "text", "text": self.text}
        return self.of(item)

    def _file(self, output: dict[str, Any]) -> dict[str, Any] | None:
        """Return a text file in place of a file of another kind; else None."""
        file = output.get("file")
        if output.get("type") not in _FILES or not isinstance(file, dict):
            return None
        path = file.get("filePath")
        lines = {"numLines": 1, "startLine": 1, "totalLines": 1}
        named = {"filePath": path if path in self.known else self.text}
        return {"type": "text", "file": {**named, "content": self.text, **lines}}

    def _members(self, output: dict[str, Any]) -> dict[str, Any]:
        replaced = {
            _key(name, number): value if name == "type" and _is_kind(value) else self.of(value)
            for number, (name, value) in enumerate(output.items())
        }
        return {**replaced, **_picture(output)}


def _picture(output: dict[str, Any]) -> dict[str, str]:
    """Return the members that replace a picture's data with an empty picture."""
    kind = next((name for name in _MEDIA_TYPES if _is_media_type(output.get(name))), None)
    data = [name for name in _DATA if isinstance(output.get(name), str)]
    return {kind: "image/png", **dict.fromkeys(data, _PICTURE)} if kind and data else {}


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("image/") and _is_kind(value)


def _key(name: str, number: int) -> str:
    return name if _KEY.fullmatch(name) else f"withheld_{number}"


def _is_kind(value: Any) -> bool:
    return isinstance(value, str) and _KIND.fullmatch(value) is not None
