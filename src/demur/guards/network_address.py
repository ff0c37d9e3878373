"""Find network addresses in a text, however they are written, and where they lead.

A tool that fetches a URL from the model can be made to fetch from inside: the machine itself,
the private network, the cloud's metadata service. Addresses are read as lenient clients read
them: decimal, octal, hex and shortened IPv4, IPv4 inside IPv6, full-width digits, user names
before an `@`. Names are not resolved: a public name that points inwards is not seen here, so
the client that connects must check again.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

Reach = Literal["metadata", "private", "public"]

# The authority ends where a path, a query or prose begins. Every part is bounded, so the time
# is linear in the text.
_AUTHORITY = r"([^\s/?#\"'<>`{}|^]{1,300})"
_URL = re.compile(r"(?<=[A-Za-z0-9+.\-]):[/\\]{2,4}" + _AUTHORITY)
# Without a scheme, as in `//host/path`, the address takes that of the page or client.
_RELATIVE = re.compile(r"(?:^|(?<=[\s\"'=(,]))(?://|\\\\)(?=[^\s/]*[.\d:])" + _AUTHORITY)
_IPV4_PART = re.compile(r"0x[0-9a-f]{1,16}|[0-9]{1,20}", re.ASCII)
_BARE = re.compile("\\[?[0-9A-Za-z_.:\\-%\u0080-\U0010ffff]{1,260}\\]?(?::[0-9]{1,5})?")
_MAX_BARE = 280
_METADATA_ADDRESSES = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
)
_METADATA = frozenset(map(ip_address, _METADATA_ADDRESSES))
_METADATA_NAMES = ("metadata.google.internal", "metadata.goog", "instance-data.ec2.internal")
_INNER_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
# Public DNS services that resolve to the address written in the name.
_REFLECTORS = ("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me")


class NetworkAddress(NamedTuple):
    """A host that a text names: where it stands, and where it leads."""

    host: str
    port: int | None
    start: int
    end: int
    reach: Reach


def find_addresses(text: str) -> Iterator[NetworkAddress]:
    """Yield the host of each URL in `text`."""
    if ":/" in text or ":\\" in text:
        for found in _URL.finditer(text):
            start, end = found.span(1)
            for host, port in _split_hosts(found[1]):
                yield NetworkAddress(host, port, start, end, _classify_reach(host))
    if "//" in text or "\\\\" in text:
        for found in _RELATIVE.finditer(text):
            start, end = found.span(1)
            for host, port in _split_hosts(found[1]):
                # A comment also begins so: only an inner address counts.
                if (reach := _classify_reach(host)) != "public" and (
                    _parse_ip(host) or "." in host
                ):
                    yield NetworkAddress(host, port, start, end, reach)


def parse_bare_address(text: str) -> NetworkAddress | None:
    """Return the host that `text` is, with or without a port, or None.

    A word without a dot is a host only if it is a number or this machine.
    """
    word = text.strip()
    # A word of letters is no address.
    if word.isascii() and word.isalpha() and word.lower() != "localhost":
        return None
    if len(word) > _MAX_BARE or not _BARE.fullmatch(word):
        return None
    start = text.index(word)
    host, port = next(_split_hosts(word), ("", None))
    if not host or not ("." in host or host == "localhost" or _parse_ip(host)):
        return None
    return NetworkAddress(host, port, start, start + len(word), _classify_reach(host))


def is_within_domains(host: str, domains: tuple[str, ...]) -> bool:
    """Return whether `host` is one of `domains` or below one."""
    return any(host == name or host.endswith(f".{name}") for name in map(_normalize_host, domains))


def _split_hosts(authority: str) -> Iterator[tuple[str, int | None]]:
    """Yield the host; where readers disagree on which part that is, each of them."""
    for piece in authority.split("\\"):
        name, port = _split_port(piece.rpartition("@")[2])
        if name:
            yield _normalize_host(name), int(port) if port else None


def _split_port(authority: str) -> tuple[str, str]:
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        return host, rest[1:] if rest[1:].isdecimal() and rest.isascii() else ""
    host, colon, port = authority.rpartition(":")
    split = colon and port.isascii() and port.isdecimal() and ":" not in host
    return (host, port) if split else (authority, "")


def _normalize_host(name: str) -> str:
    plain = normalize("NFKC", unquote(name)).casefold()
    return plain.replace("。", ".").strip(".").partition("%")[0]


@lru_cache(maxsize=4096)
def _classify_reach(host: str) -> Reach:
    address = _parse_ip(host) or _reflected_address(host)
    if address is None:
        if is_within_domains(host, _METADATA_NAMES):
            return "metadata"
        return "private" if "." not in host or is_within_domains(host, _INNER_NAMES) else "public"
    if address in _METADATA:
        return "metadata"
    return "public" if address.is_global and not address.is_multicast else "private"


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return _embedded_ipv4(IPv6Address(host)) if ":" in host else _parse_ipv4(host)
    except ValueError:
        return None


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address carries, if it does."""
    if address in _METADATA:
        return address
    if carried := address.ipv4_mapped or address.sixtofour:
        return carried
    number = int(address)
    prefix = number >> 32
    # `::a.b.c.d`, and the prefix by which IPv6 hosts reach IPv4 ones.
    if prefix == 0x64FF9B << 64 or (prefix == 0 and number > 0xFFFF):
        return IPv4Address(number & 0xFFFFFFFF)
    return address


def _parse_ipv4(host: str) -> IPv4Address | None:
    parts = host.split(".")
    if len(parts) > 4 or not all(_IPV4_PART.fullmatch(p) for p in parts if p.isascii()):
        return None
    try:
        *first, last = map(_parse_ipv4_part, parts)
    except ValueError:
        return None
    if any(number > 255 for number in first) or last >= 256 ** (5 - len(parts)):
        return None
    return IPv4Address(last + sum(each << (24 - 8 * index) for index, each in enumerate(first)))


def _parse_ipv4_part(part: str) -> int:
    if part.startswith("0x"):
        return int(part, 16)
    return int(part, 8) if len(part) > 1 and part.startswith("0") else int(part)


def _reflected_address(host: str) -> IPv4Address | None:
    for name in _REFLECTORS:
        if host == name:
            return IPv4Address("127.0.0.1")
        if host.endswith(f".{name}"):
            labels = host.removesuffix(f".{name}").replace("-", ".").split(".")
            return _parse_ipv4(".".join(labels[-4:])) or IPv4Address("127.0.0.1")
    return None
