"""The texts that a model would read in a server's message, those of its blocks first.

Pictures and sounds are no text. They are left out only where the protocol has a place for them,
and only if they are what they claim to be: anywhere else, a text may be called a picture.
"""

import base64
import re
from typing import Any
from urllib.parse import unquote

# Members of a result that hold blocks, and of a block that hold further ones.
_BLOCK_HOLDERS = frozenset({"content", "contents", "messages"})
_NESTED_BLOCKS = frozenset({"content", "resource"})
_ENCODED_MEMBERS = frozenset({"data", "blob"})
_WRAPPED_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{64,76}\r?\n)+[A-Za-z0-9+/]{0,76}={0,2}(?:\r?\n)?")
_DATA_URL = re.compile(r"(data:([^,]*);base64),(.*)", re.IGNORECASE | re.DOTALL)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_URL_SAFE = str.maketrans("-_", "+/")
_TEXT_MEDIA_TYPE = re.compile(
    r"\s*(?:text/|[^;]*[/+](?:x-)?(?:json|ndjson|xml|(?:java|ecma)script|yaml|toml|csv|html|sql|sh)\b)",
    re.IGNORECASE,
)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROL_CHARACTERS = "".join(map(chr, {*range(32), 127} - {9, 10, 13})) + "\ufffd"
# Data with more than one control character in ten is no text.
_MAX_CONTROL_SHARE = 10


def readable_content(value: Any) -> list[Any]:
    """Return the parts of a result, or of a sampling request, that a model reads.

    The texts of all blocks come first, joined, because a model reads them as one text.
    """
    if not isinstance(value, dict):
        return [value]
    texts: list[str] = []
    rest = {
        name: _strip_block(item, texts) if name in _BLOCK_HOLDERS else item
        for name, item in value.items()
    }
    return ["\n".join(texts), rest]


def readable_icons(icons: Any) -> Any:
    """Return the icons of a definition without the data of valid pictures."""
    if isinstance(icons, list):
        return [readable_icons(one) for one in icons]
    if not isinstance(icons, dict) or not isinstance(icons.get("src"), str):
        return icons
    return {**icons, "src": _icon_source(icons["src"])}


def _icon_source(source: str) -> list[str]:
    found = _DATA_URL.fullmatch(source)
    if found is None:
        return [source, unquote(source)] if "%" in source else [source]
    return [found[1], *_decode_texts(found[3], found[2])]


def _strip_block(block: Any, texts: list[str]) -> Any:
    """Return blocks without pictures and texts; the texts are added to `texts`."""
    if isinstance(block, list):
        return [_strip_block(one, texts) for one in block]
    if not isinstance(block, dict):
        return block
    rest: dict[str, Any] = {}
    for name, item in block.items():
        if name == "text" and isinstance(item, str):
            texts.append(item)
        elif name in _ENCODED_MEMBERS and isinstance(item, str):
            rest[name] = _decode_texts(item, block.get("mimeType"))
        else:
            rest[name] = _strip_block(item, texts) if name in _NESTED_BLOCKS else item
    return rest


def _decode_texts(encoded: str, kind: Any) -> list[str]:
    """Return the texts in base64 data; empty if it is binary."""
    packed = "".join(encoded.split()) if _WRAPPED_BASE64.fullmatch(encoded) else encoded
    try:
        data = base64.b64decode(packed, validate=True)
    except ValueError:
        # A reader may decode it less strictly, or read it as it stands.
        return [encoded, *_texts_in_bytes(_decode_loosely(encoded), kind)]
    return _texts_in_bytes(data, kind)


def _decode_loosely(encoded: str) -> bytes:
    packed = _NOT_BASE64.sub("", encoded.translate(_URL_SAFE))
    # A single leftover character holds less than a byte.
    whole = packed[: len(packed) - (len(packed) % 4 == 1)]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _texts_in_bytes(data: bytes, kind: Any) -> list[str]:
    text = data.decode("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8", "replace")
    if isinstance(kind, str) and _TEXT_MEDIA_TYPE.match(kind):
        return [text]
    strange = sum(map(text.count, _CONTROL_CHARACTERS))
    return [text] if strange * _MAX_CONTROL_SHARE <= len(text) else []
