"""Static files: styles, scripts and the icon, named by a digest of their content."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from demur.service.call import Answer, Call
from demur.service.problem import invalid

__all__ = ["Asset", "asset", "assets", "path_of"]

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A static file; `address` contains its digest, so browsers may cache it for ever."""

    address: str
    content: bytes
    media_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return all static files by their plain name."""
    found: dict[str, Asset] = {}
    for file in sorted((files("demur.service.dashboard") / "static").iterdir(), key=str):
        stem, _, ending = file.name.rpartition(".")
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        found[file.name] = Asset(
            address=f"{stem}.{digest}.{ending}",
            content=content,
            media_type=_TYPES[ending],
            etag=f'"{digest}"',
        )
    return found


@cache
def _by_address() -> Mapping[str, Asset]:
    return {one.address: one for one in assets().values()}


def path_of(name: str) -> str:
    """Return the path of a static file."""
    return f"/static/{assets()[name].address}"


async def asset(call: Call) -> Answer:
    """Return a static file, or 304 if the browser has it already."""
    found = _by_address().get(call.path["name"])
    if found is None:
        raise invalid(404, "there is no such file")
    headers = {"cache-control": _FOREVER, "etag": found.etag}
    if found.etag in call.headers.get("if-none-match", ""):
        return Answer(b"", 304, found.media_type, headers)
    return Answer(found.content, 200, found.media_type, headers)
