"""A tool's output without what was in it, in the shape that Claude Code expects.

It keeps the original if a replacement does not fit the tool's own schema. So the shape stays:
every text is replaced, except the names by which a tool tells its kinds of output apart.
Pictures and documents become texts where texts may stand, or else an empty picture. Needs the
standard library alone.
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

__all__ = ["withhold_texts"]

_KIND_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_/+.-]{0,29}")
_KEY_PATTERN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]{0,39}")
# Kinds of message parts that are not text.
_MEDIA_KINDS = ("image", "audio", "video", "document", "resource", "file", "pdf")
_BLANK_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
_FILE_KINDS = (*_MEDIA_KINDS, "notebook", "parts")
_DATA_MEMBERS = ("base64", "data", "blob", "image_data")
_MEDIA_TYPES = ("media_type", "mediaType", "mimeType", "type")


def withhold_texts(output: Any, text: str, kept_texts: Collection[object] = ()) -> Any:
    """Return `output` with `text` in place of every text in it; empty ones stay empty.

    `kept_texts` may stay because the agent wrote them itself, like a path. Pictures and documents
    become texts where texts are allowed, or else an empty picture.
    """
    return _OutputWithholder(text, kept_texts).replace_value(output)


class _OutputWithholder(NamedTuple):
    text: str
    kept_texts: Collection[object]

    def replace_value(self, output: Any) -> Any:
        # INVARIANT: the replacement keeps no text of the output, except kinds and kept texts.
        if isinstance(output, str):
            return output if not output or output in self.kept_texts else self.text
        if isinstance(output, list):
            return [self._replace_part(item) for item in output]
        if isinstance(output, dict):
            return self._replace_file(output) or self._replace_members(output)
        return output

    def _replace_part(self, item: Any) -> Any:
        """Return the replacement of a list item: a text for media."""
        if isinstance(item, dict) and item.get("type") in _MEDIA_KINDS:
            return {"type": "text", "text": self.text}
        return self.replace_value(item)

    def _replace_file(self, output: dict[str, Any]) -> dict[str, Any] | None:
        """Return a text file in place of a file of another kind; else None."""
        file = output.get("file")
        if output.get("type") not in _FILE_KINDS or not isinstance(file, dict):
            return None
        path = file.get("filePath")
        lines = {"numLines": 1, "startLine": 1, "totalLines": 1}
        named = {"filePath": path if path in self.kept_texts else self.text}
        return {"type": "text", "file": {**named, "content": self.text, **lines}}

    def _replace_members(self, output: dict[str, Any]) -> dict[str, Any]:
        replaced = {
            _safe_key(name, number): value
            if name == "type" and _is_kind(value)
            else self.replace_value(value)
            for number, (name, value) in enumerate(output.items())
        }
        return {**replaced, **_blank_picture(output)}


def _blank_picture(output: dict[str, Any]) -> dict[str, str]:
    """Return the members that replace a picture's data with an empty picture."""
    kind = next((name for name in _MEDIA_TYPES if _is_media_type(output.get(name))), None)
    data = [name for name in _DATA_MEMBERS if isinstance(output.get(name), str)]
    return {kind: "image/png", **dict.fromkeys(data, _BLANK_PNG)} if kind and data else {}


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("image/") and _is_kind(value)


def _safe_key(name: str, number: int) -> str:
    return name if _KEY_PATTERN.fullmatch(name) else f"withheld_{number}"


def _is_kind(value: Any) -> bool:
    return isinstance(value, str) and _KIND_PATTERN.fullmatch(value) is not None
