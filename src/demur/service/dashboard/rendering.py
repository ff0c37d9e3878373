"""Templates: HTML in which every value is escaped, whatever it holds."""

import unicodedata
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

import minijinja
import msgspec

from demur.service.dashboard.assets import path_of

__all__ = ["render"]

# Categories of characters that hide or reorder text; pages spell them out.
_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
_KEPT = {"\n", "\t"}

_ENOUGH = 20
_MANIFOLD, _MANY = 3, 10


def render(name: str, **values: Any) -> bytes:
    """Return a page. Lone surrogates, which no page can hold, become question marks."""
    return _environment().render_template(name, **values).encode("utf-8", "replace")


@cache
def _environment() -> minijinja.Environment:
    return minijinja.Environment(
        loader=_source,
        filters={
            "amount": amount,
            "change": change,
            "json": plain_json,
            "number": number,
            "percent": percent,
            "plain": plain,
            "query": query,
            "segment": segment,
            "words": words,
        },
        globals={"static": path_of},
        undefined_behavior="strict",
        auto_escape_callback=lambda _: "html",
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    return (files("demur.service.dashboard") / "templates" / name).read_text(encoding="utf-8")


def number(value: float) -> str:
    """Return a number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def amount(value: float, noun: str) -> str:
    """Return a number with its noun: `1 decision`, `2 decisions`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def percent(value: float) -> str:
    """Return a percentage: one digit behind the point, and never 0 for something."""
    if 0 < value < 0.1:
        return "< 0.1\N{NARROW NO-BREAK SPACE}%"
    return f"{value:.1f}\N{NARROW NO-BREAK SPACE}%"


def change(now: float, before: float) -> str:
    """Return the change as a percentage, or as a factor above three.

    Empty if `before` is so small that any change would look enormous.
    """
    if before < _ENOUGH:
        return ""
    times = now / before
    if times > _MANIFOLD:
        shown = number(round(times)) if times >= _MANY else f"{times:.1f}"
        return f"{shown}\N{MULTIPLICATION SIGN}"
    part = 100 * (now - before) / before
    if abs(part) < 0.5:
        return "\N{PLUS-MINUS SIGN}0\N{NARROW NO-BREAK SPACE}%"
    sign = "+" if part > 0 else "\N{MINUS SIGN}"
    return f"{sign}{number(round(abs(part)))}\N{NARROW NO-BREAK SPACE}%"


def plain(value: object) -> str:
    """Return a text with control and direction characters spelled out."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(character) for character in text)


def _seen(character: str) -> str:
    if character not in _KEPT and unicodedata.category(character) in _UNSEEN:
        return f"\N{WHITE SQUARE}{ord(character):04X}\N{WHITE SQUARE}"
    return character


def plain_json(value: Any) -> str:
    """Return a value as indented JSON, with hidden characters spelled out."""
    raw = msgspec.json.encode(value, order="sorted")
    return plain(msgspec.json.format(raw, indent=2).decode())


def query(values: dict[str, Any], **more: Any) -> str:
    """Return an encoded query with changes applied, without empty values."""
    merged = {**values, **more}
    return urlencode({name: value for name, value in merged.items() if value not in {None, ""}})


def segment(value: str) -> str:
    """Return a text as part of a path."""
    return quote(value.encode("utf-8", "replace").decode(), safe="/" if "/" in value else "")


def words(value: str) -> str:
    """Return a constant as words: `REFUSE_WITH_PATH` is `refuse with path`."""
    return str(value).replace("_", " ").lower()
