"""Static files: styles, scripts and the icon, named by a digest of their content."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from demur.service.call import ApiAnswer, ApiCall
from demur.service.problem import invalid_request

__all__ = ["Asset", "serve_asset", "load_assets", "asset_path"]

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
    found: dict[str, Asset] = {}
    for file in sorted((files("demur.service.dashboard") / "static").iterdir(), key=str):
        stem, _, ending = file.name.rpartition(".")
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        found[file.name] = Asset(
            address=f"{stem}.{digest}.{ending}",
            content=content,
            media_type=_MEDIA_TYPES[ending],
            etag=f'"{digest}"',
        )
    return found


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
        raise invalid_request(404, "there is no such file")
    headers = {"cache-control": _CACHE_FOREVER, "etag": found.etag}
    if found.etag in call.headers.get("if-none-match", ""):
        return ApiAnswer(b"", 304, found.media_type, headers)
    return ApiAnswer(found.content, 200, found.media_type, headers)
