r"""Undoes the escapes of `$'...'`, `printf` and `echo -e`: `\x72`, `\162`, `\u0072`, `\n`."""

import re

__all__ = ["decode_ansi_c"]

_ESCAPE = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,4}|c.|.)", re.DOTALL
)
_LETTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_MAX_CODE_POINT = 0x10FFFF


def decode_ansi_c(text: str) -> str:
    """Return `text` with its ANSI C escapes decoded."""
    return _ESCAPE.sub(_decode_escape, text) if "\\" in text else text


def _decode_escape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        return _to_character(int(escape[1:], 16))
    if escape[0] in "01234567":
        return _to_character(int(escape, 8) & 0xFF)
    return _LETTERS.get(escape, escape)


def _to_character(point: int) -> str:
    return chr(point) if 0 < point <= _MAX_CODE_POINT else ""
