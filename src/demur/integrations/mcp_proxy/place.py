"""Where a call over HTTP says it comes from and goes to.

A page in a browser can have its own name point at this machine, and ask us in that name. So
only names that are ours are answered to, and no page of another place is.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address

__all__ = ["is_loopback", "read_headers", "wrong_place"]

# Two of these would let one reader see another call than the next.
_ONCE = frozenset(
    {"host", "origin", "content-type", "content-length", "accept", "sec-fetch-site"}
    | {"mcp-session-id", "mcp-protocol-version"}
)
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d{1,5})?")
_NEAR = frozenset({"same-origin", "none", ""})


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return headers by name; None if one that counts came twice."""
    read: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1").lower()
        if name in read and name in _ONCE:
            return None
        read[name] = value.decode("latin-1")
    return read


def wrong_place(headers: Mapping[str, str], names: Collection[str]) -> tuple[int, str] | None:
    """Return the status and the words for a call that is not for us, or from another site."""
    host = headers.get("host", "").lower()
    found = _HOST.fullmatch(host)
    bare = "" if found is None else found[1] or found[2]
    # Nobody can make an address point elsewhere.
    if bare not in names and not is_loopback(bare) and not _is_address(bare):
        return 421, "this proxy does not answer to that host name"
    origin = headers.get("origin")
    foreign = origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}
    if foreign or headers.get("sec-fetch-site", "").lower() not in _NEAR:
        return 403, "another site may not ask for this"
    return None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, as it calls itself."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
