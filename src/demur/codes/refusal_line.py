"""The refusal line `REFUSED: CODE: detail`: write it, parse it, and find it in logs.

A detail is one line. Control characters, line separators and lone surrogates are written as
backslash-u escapes and restored by the parser. A backslash is doubled only before such an
escape, so that paths and the escapes of other tools stay as they are.

In log text, one line holds at most one refusal. The first marker at a word boundary that a
well-formed code follows owns the rest of its line, so a refusal quoted in a detail does not
count again. `parse_refusal` reads a line that starts with the marker. A line that holds the
marker anywhere is never read by its legacy phrases.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from demur.codes.entry import is_code
from demur.codes.loading import default_registry, registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.errors import InputTypeError

REFUSAL_MARK = "REFUSED:"
REFUSAL_PREFIX = f"{REFUSAL_MARK} "
KNOWN_CODES: frozenset[ReasonCode] = frozenset(ReasonCode)
"""The codes of the core, deprecated ones included. Codes of organisations are not among them,
although they parse: `code in default_registry()` knows those too, and iterating over
`default_registry()` gives every entry (`demur.codes.default_registry`)."""


def _line_head(code: str) -> str:
    return f"{REFUSAL_PREFIX}{code}: "


_CORE_CODES: dict[str, str] = {str(code): code for code in ReasonCode}
_HEADS: dict[str, str] = {str(code): _line_head(code) for code in ReasonCode}

# Controls (C0, DEL, C1), the two Unicode line separators and lone surrogates.
_UNSAFE = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff"
_TAIL = r"u(?:00[01][0-9a-f]|007f|00[89][0-9a-f]|202[89]|d[89a-f][0-9a-f]{2})"
# A match takes a whole run of backslashes or none: matching parts of it would be quadratic.
_RUN = r"(?<!\\)\\++"
_TO_ESCAPE = re.compile(rf"{_RUN}(?=[{_UNSAFE}]|{_TAIL})|[{_UNSAFE}]")
_TO_RESTORE = re.compile(rf"({_RUN})({_TAIL})")
_LINE_BREAK = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m\Z")
_NEWLINE_AT_END = re.compile(r"(?:\r\n|[\n\r])\Z")


_new_tuple = tuple.__new__


class ParsedRefusal(NamedTuple):
    """The code and the detail of a refusal line."""

    code: str
    detail: str


def format_refusal(code: str, detail: str = "", *, registry: Registry | None = None) -> str:
    """Return the refusal line of `code` and `detail`; any string is a valid detail.

    Raises:
        UnknownCodeError: The code is in no registry. A guard must not invent codes.
    """
    try:
        head = _HEADS[code]
    except (KeyError, TypeError):
        head = None
    if head is None:
        head = _line_head((default_registry() if registry is None else registry)[code].code)
    if not isinstance(detail, str):
        raise InputTypeError.wrong_type("a detail", "a string", detail)
    # Concatenated, not formatted: a detail may be a string enum, which formats as its name.
    return head + _escape_detail(detail)


def build_refusal_line(code: str, detail: str) -> str:
    """Return the line for a code that is known to be registered."""
    return _line_head(code) + _escape_detail(detail)


def _escape_detail(detail: str) -> str:
    # A printable text needs no escapes, unless it already looks escaped.
    if detail.isprintable() and "\\u" not in detail:
        return detail
    return _TO_ESCAPE.sub(_escape_match, detail)


def _escape_match(found: re.Match[str]) -> str:
    text = found[0]
    return text + text if text[0] == "\\" else f"\\u{ord(text):04x}"


def unescape_detail(detail: str) -> str:
    """Return `detail` with its escapes undone."""
    return _TO_RESTORE.sub(_unescape_match, detail) if "\\u" in detail else detail


def _unescape_match(found: re.Match[str]) -> str:
    backslashes, tail = found.groups()
    half = backslashes[: len(backslashes) // 2]
    return half + (chr(int(tail[1:], 16)) if len(backslashes) % 2 else tail)


def parse_refusal(text: str, *, registry: Registry | None = None) -> ParsedRefusal | None:
    """Return the code and detail of the refusal in `text`, or None if there is none.

    A canonical line comes first. In a text without a marker, a legacy phrase names the
    code, and the whole text is the detail. Unknown codes give None. No string raises.
    """
    # Hot path: the canonical line of a core code.
    try:
        mark, name, detail = text.split(": ", 2)
        if mark == "REFUSED" and "\\u" not in detail and detail.isprintable():
            return _new_tuple(ParsedRefusal, (_CORE_CODES[name], detail))
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("a refusal", "a string", text)
    if text[: len(REFUSAL_PREFIX)] == REFUSAL_PREFIX:
        return _parse_canonical(text, registry)
    if REFUSAL_MARK in text and next(find_markers(text), None) is not None:
        return None
    code = (registry_or_core() if registry is None else registry).code_of_phrase(text)
    return None if code is None else ParsedRefusal(_CORE_CODES.get(code, code), text)


def find_markers(line: str) -> Iterator[int]:
    """Yield each position of `REFUSED:` at the start of a word."""
    start = line.find(REFUSAL_MARK)
    while start >= 0:
        before = line[start - 1] if start else " "
        # A terminal's colour code ends in a letter, but is not part of a word.
        if not (before.isalnum() or before == "_") or _COLOUR.search(line, start - 20, start):
            yield start
        start = line.find(REFUSAL_MARK, start + 1)


def _parse_canonical(text: str, registry: Registry | None) -> ParsedRefusal | None:
    text = _NEWLINE_AT_END.sub("", text)
    if _LINE_BREAK.search(text):
        return None
    name, _, detail = text[len(REFUSAL_PREFIX) :].partition(":")
    if detail and detail[0] != " ":
        return None
    code = _CORE_CODES.get(name) or _registered_code(name, registry)
    return None if code is None else ParsedRefusal(code, unescape_detail(detail[1:]))


def _registered_code(name: str, registry: Registry | None) -> str | None:
    entry = (registry_or_core() if registry is None else registry).get(name)
    return None if entry is None else entry.code


_COLOUR_OFF = re.compile(r"(?:\x1b\[[0-9;]*m)+\Z")
_LINE = re.compile(r"[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


class FoundRefusal(NamedTuple):
    """A refusal in a text: `text[start:end]` is the line from its marker, or the whole line."""

    code: str
    detail: str
    start: int
    end: int
    legacy: bool


class _RefusalClaim(NamedTuple):
    name: str
    detail: str


def find_refusals(text: str, *, registry: Registry | None = None) -> list[FoundRefusal]:
    """Return the refusals in `text`, at most one a line, in order. No string raises."""
    if not isinstance(text, str):
        raise InputTypeError.wrong_type("a text", "a string", text)
    known = registry_or_core() if registry is None else registry
    found = (_find_in_line(line[0], line.start(), known) for line in _LINE.finditer(text))
    return [refusal for refusal in found if refusal is not None]


def _find_in_line(line: str, offset: int, registry: Registry) -> FoundRefusal | None:
    # The escape sequence that ends a coloured line is not part of its text.
    line = _COLOUR_OFF.sub("", line) if "\x1b" in line else line
    end = offset + len(line)
    start = -1
    for start in find_markers(line):
        claim = _parse_claim(line, start)
        if claim is not None:
            entry = registry.get(claim.name)
            if entry is None:
                return None
            return FoundRefusal(entry.code, claim.detail, offset + start, end, legacy=False)
        if start == 0:
            return None
    code = registry.code_of_phrase(line) if start < 0 else None
    return None if code is None else FoundRefusal(code, line, offset, end, legacy=True)


def _parse_claim(line: str, start: int) -> _RefusalClaim | None:
    """Return the code and detail after the marker at `start`, if the code is well formed."""
    begin = start + len(REFUSAL_PREFIX)
    if line[start:begin] != REFUSAL_PREFIX:
        return None
    # Linear: the next marker ends in a colon, so these slices do not overlap.
    colon = line.find(":", begin)
    name = line[begin:] if colon < 0 else line[begin:colon]
    if not is_code(name) or (colon >= 0 and line[colon + 1 : colon + 2] not in {"", " "}):
        return None
    return _RefusalClaim(name, "" if colon < 0 else unescape_detail(line[colon + 2 :]))
