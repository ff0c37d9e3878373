"""Templates in which every value is escaped, and the static files that pages load."""

import hashlib
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import minijinja
import msgspec

from demur.service.calls import ApiAnswer, ApiCall
from demur.service.problem import invalid_call, replace_surrogates

_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_CACHE_FOREVER = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A static file; `address` contains its digest, so browsers may cache it for ever."""

    address: str
    content: bytes
    media_type: str
    etag: str


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return all static files by their plain name."""
    assets: dict[str, Asset] = {}
    for file in sorted((files("demur.service.dashboard") / "static").iterdir(), key=str):
        stem, _, ending = file.name.rpartition(".")
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        assets[file.name] = Asset(
            address=f"{stem}.{digest}.{ending}",
            content=content,
            media_type=_MEDIA_TYPES[ending],
            etag=f'"{digest}"',
        )
    return assets


@cache
def _assets_by_address() -> Mapping[str, Asset]:
    return {one.address: one for one in load_assets().values()}


def asset_path(name: str) -> str:
    """Return the path of a static file."""
    return f"/static/{load_assets()[name].address}"


async def serve_asset(call: ApiCall) -> ApiAnswer:
    """Return a static file, or 304 if the browser has it already."""
    found = _assets_by_address().get(call.path["name"])
    if found is None:
        raise invalid_call(404, "there is no such file")
    headers = {"cache-control": _CACHE_FOREVER, "etag": found.etag}
    if found.etag in call.headers.get("if-none-match", ""):
        return ApiAnswer(b"", 304, found.media_type, headers)
    return ApiAnswer(found.content, 200, found.media_type, headers)


# Categories of characters that hide or reorder text; pages spell them out.
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Zl", "Zp"}
_KEPT_CHARACTERS = {"\n", "\t"}

_MIN_COMPARED = 20
_SHOWN_AS_FACTOR, _ROUNDED_FACTOR = 3, 10


def render_template(name: str, **values: Any) -> bytes:
    """Return a page. Lone surrogates, which no page can hold, become question marks."""
    return _template_environment().render_template(name, **values).encode("utf-8", "replace")


@cache
def _template_environment() -> minijinja.Environment:
    folder = files("demur.service.dashboard") / "templates"
    return minijinja.Environment(
        loader=lambda name: (folder / name).read_text(encoding="utf-8"),
        filters={
            "amount": format_amount,
            "change": format_change,
            "json": format_json,
            "number": format_number,
            "percent": format_percent,
            "plain": reveal_hidden,
            "query": encode_query,
            "segment": encode_segment,
            "words": constant_words,
        },
        globals={"link": build_link, "static": asset_path, "with_query": with_query},
        undefined_behavior="strict",
        auto_escape_callback=lambda _: "html",
        trim_blocks=True,
        lstrip_blocks=True,
    )


def format_number(value: float) -> str:
    """Return a number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_amount(value: float, noun: str) -> str:
    """Return a number with its noun: `1 decision`, `2 decisions`."""
    return f"{format_number(value)} {noun}{'' if value == 1 else 's'}"


def format_percent(value: float) -> str:
    """Return a percentage: one digit behind the point, and never 0 for something."""
    if 0 < value < 0.1:
        return "< 0.1\N{NARROW NO-BREAK SPACE}%"
    return f"{value:.1f}\N{NARROW NO-BREAK SPACE}%"


def format_change(now: float, before: float) -> str:
    """Return the change as a percentage, or as a factor above three.

    Empty if `before` is so small that any change would look enormous.
    """
    if before < _MIN_COMPARED:
        return ""
    times = now / before
    if times > _SHOWN_AS_FACTOR:
        shown = format_number(round(times)) if times >= _ROUNDED_FACTOR else f"{times:.1f}"
        return f"{shown}\N{MULTIPLICATION SIGN}"
    part = 100 * (now - before) / before
    if abs(part) < 0.5:
        return "\N{PLUS-MINUS SIGN}0\N{NARROW NO-BREAK SPACE}%"
    sign = "+" if part > 0 else "\N{MINUS SIGN}"
    return f"{sign}{format_number(round(abs(part)))}\N{NARROW NO-BREAK SPACE}%"


def reveal_hidden(value: object) -> str:
    """Return a text with control and direction characters spelled out."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\N{WHITE SQUARE}{ord(one):04X}\N{WHITE SQUARE}"
        if one not in _KEPT_CHARACTERS and unicodedata.category(one) in _HIDDEN_CATEGORIES
        else one
        for one in text
    )


def format_json(value: Any) -> str:
    """Return a value as indented JSON, with hidden characters spelled out."""
    raw = msgspec.json.encode(value, order="sorted")
    return reveal_hidden(msgspec.json.format(raw, indent=2).decode())


def encode_query(values: dict[str, Any], **more: Any) -> str:
    """Return an encoded query with changes applied, without empty values."""
    merged = {**values, **more}
    return urlencode({name: value for name, value in merged.items() if value not in {None, ""}})


_RANGE_NAMES = frozenset({"last", "since", "until"})


@minijinja.pass_state
def build_link(
    state: Any, path: str, query: Mapping[str, Any] = MappingProxyType({}), **more: Any
) -> str:
    """Return a path with a query that keeps the time range and the zone of the page."""
    wanted = {**query, **more}
    frame = state.lookup("frame")
    carried = {} if frame is None else frame.carried
    if not _RANGE_NAMES.isdisjoint(wanted):
        # A range that is named, or left out by an empty name, takes the place of the page's.
        carried = {name: value for name, value in carried.items() if name not in _RANGE_NAMES}
    encoded = encode_query({**carried, **wanted})
    return f"{path}?{encoded}" if encoded else path


def with_query(target: str, **changes: str) -> str:
    """Return the address of a page with some parameters of its query replaced."""
    path, _, query = target.partition("?")
    kept = [pair for pair in parse_qsl(query) if pair[0] not in changes]
    return f"{path}?{urlencode([*kept, *changes.items()])}"


def encode_segment(value: str) -> str:
    """Return a text as part of a path."""
    return quote(replace_surrogates(value), safe="/" if "/" in value else "")


def constant_words(value: str) -> str:
    """Return a constant as words: `REFUSE_WITH_PATH` is `refuse with path`."""
    return str(value).replace("_", " ").lower()
