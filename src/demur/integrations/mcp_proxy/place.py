"""Check the host and origin of a call over HTTP.

A page in a browser can point its own host name at this machine. So the proxy answers only to its
own names, and to no page of another site.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address

__all__ = ["is_loopback", "read_headers", "check_place"]

# A duplicate of these lets two readers see two different calls.
_SINGLE_HEADERS = frozenset(
    {"host", "origin", "content-type", "content-length", "accept", "sec-fetch-site"}
    | {"mcp-session-id", "mcp-protocol-version"}
)
_HOST_HEADER = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d{1,5})?")
_SAME_SITE = frozenset({"same-origin", "none", ""})


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return headers by name; None if a security-relevant one is duplicate."""
    read: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1").lower()
        if name in read and name in _SINGLE_HEADERS:
            return None
        read[name] = value.decode("latin-1")
    return read


def check_place(headers: Mapping[str, str], names: Collection[str]) -> tuple[int, str] | None:
    """Return status and problem of a call to an unknown host or from another site, or None."""
    host = headers.get("host", "").lower()
    found = _HOST_HEADER.fullmatch(host)
    bare = "" if found is None else found[1] or found[2]
    # DNS cannot point an IP address elsewhere.
    if bare not in names and not is_loopback(bare) and not _is_ip_address(bare):
        return 421, "this proxy does not answer to that host name"
    origin = headers.get("origin")
    foreign = origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}
    if foreign or headers.get("sec-fetch-site", "").lower() not in _SAME_SITE:
        return 403, "cross-site calls are not allowed"
    return None


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback name or address."""
    if host.lower() == "localhost":
        return True
    return _is_ip_address(host) and ip_address(host).is_loopback


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
