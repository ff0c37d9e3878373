"""Find refusals in log text, behind timestamps, levels and logger names.

One line holds at most one refusal. The first marker that stands at a word
boundary and is followed by a well-formed code owns the rest of its line, so a
refusal quoted in a detail is not counted again. A line that starts with the marker
is read as `parse_refusal` reads it, and a line that carries the marker at all is
never read by its legacy phrases.
"""

import re
from typing import NamedTuple

from demur.codes.default import registry_or_core
from demur.codes.line import REFUSAL_PREFIX, find_markers, unescape_detail
from demur.codes.names import is_code
from demur.codes.registry import Registry
from demur.errors import InputTypeError

__all__ = ["FoundRefusal", "find_refusals"]

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
