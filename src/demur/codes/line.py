"""The refusal line: `REFUSED: CODE: detail`, written and read.

A detail is one line. What would end a line, start a new one or cannot be
encoded is written as `\\uXXXX` and restored on the way in; a backslash is doubled
only where it stands before such an escape, so paths and other tools' escapes
stay as they are.
"""

import re
from typing import NamedTuple

from demur.codes.default import default_registry, registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.errors import InputTypeError

__all__ = ["KNOWN_CODES", "PREFIX", "ParsedRefusal", "format_refusal", "parse_refusal", "restore"]

PREFIX = "REFUSED: "
MARK = "REFUSED:"
KNOWN_CODES: frozenset[ReasonCode] = frozenset(ReasonCode)

_CORE: dict[str, str] = {str(code): code for code in ReasonCode}

# Controls (C0, DEL, C1), the two Unicode line separators and lone surrogates.
_UNSAFE = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff"
_TAIL = r"u(?:00[01][0-9a-f]|007f|00[89][0-9a-f]|202[89]|d[89a-f][0-9a-f]{2})"
_TO_ESCAPE = re.compile(rf"(\\*)(?:([{_UNSAFE}])|(?={_TAIL}))")
_TO_RESTORE = re.compile(rf"(\\+)({_TAIL})")
_LINE_BREAK = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_NEWLINE_AT_END = re.compile(r"(?:\r\n|[\n\r])\Z")


class ParsedRefusal(NamedTuple):
    """What a refusal line says: its code and its detail."""

    code: str
    detail: str


def format_refusal(code: str, detail: str = "", *, registry: Registry | None = None) -> str:
    """Return the refusal line of `code` and `detail`; any string is a valid detail.

    Raises:
        UnknownCodeError: The code is not registered; a guard must not invent one.
    """
    if code.__class__ is not ReasonCode and code not in _CORE:
        code = (registry or default_registry())[code].code
    try:
        # A printable text holds nothing to escape, unless it looks escaped already.
        if detail.isprintable() and "\\u" not in detail:
            return f"REFUSED: {code}: {detail}"
    except AttributeError:
        raise InputTypeError.expected("a detail", "a string", detail) from None
    return f"REFUSED: {code}: {_TO_ESCAPE.sub(_escape, detail)}"


def _escape(found: re.Match[str]) -> str:
    backslashes, unsafe = found.groups()
    escape = "" if unsafe is None else f"\\u{ord(unsafe):04x}"
    return f"{backslashes}{backslashes}{escape}"


def restore(detail: str) -> str:
    """Return the detail that was escaped to `detail`."""
    return _TO_RESTORE.sub(_unescape, detail) if "\\u" in detail else detail


def _unescape(found: re.Match[str]) -> str:
    backslashes, tail = found.groups()
    half = backslashes[: len(backslashes) // 2]
    return half + (chr(int(tail[1:], 16)) if len(backslashes) % 2 else tail)


def parse_refusal(text: str, *, registry: Registry | None = None) -> ParsedRefusal | None:
    """Return the code and detail that `text` refuses with, or None if it is no refusal.

    A canonical line wins; otherwise a legacy phrase in the text gives the code,
    and the whole text is the detail. Unknown codes are None. No string raises.
    """
    # The canonical line of a core code takes this way and no other: it is the hot path.
    try:
        mark, name, detail = text.split(": ", 2)
        if mark == "REFUSED" and "\\u" not in detail and detail.isprintable():
            return tuple.__new__(ParsedRefusal, (_CORE[name], detail))
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    if not isinstance(text, str):
        raise InputTypeError.expected("a refusal", "a string", text)
    if text[: len(PREFIX)] == PREFIX:
        return _parse_canonical(text, registry)
    if text.lstrip()[: len(MARK)] == MARK:
        return None
    code = (registry or registry_or_core()).code_of_phrase(text)
    return None if code is None else ParsedRefusal(_CORE.get(code, code), text)


def _parse_canonical(text: str, registry: Registry | None) -> ParsedRefusal | None:
    text = _NEWLINE_AT_END.sub("", text)
    if _LINE_BREAK.search(text):
        return None
    name, colon, detail = text[len(PREFIX) :].partition(":")
    if colon and detail:
        if detail[0] != " ":
            return None
        detail = restore(detail[1:])
    code = _CORE.get(name) or _known(name, registry)
    return None if code is None else ParsedRefusal(code, detail)


def _known(name: str, registry: Registry | None) -> str | None:
    entry = (registry or registry_or_core()).get(name)
    return None if entry is None else entry.code
