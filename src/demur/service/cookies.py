"""Cookies of the dashboard, and from where and how a call reached the service.

Over TLS, cookies are `Secure` and have the prefix `__Host-`, so that no other site, subdomain or
plain connection can set them. The service speaks plain HTTP itself: that TLS is used is known from
a setting, or from a trusted proxy.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import Scope

SESSION_COOKIE = "demur_session"
SIGN_IN_COOKIE = "demur_sign_in"
TENANT_COOKIE = "demur_tenant"
ZONE_COOKIE = "demur_zone"
COOKIE_LIFETIME = timedelta(hours=12)
_HOST_PREFIX = "__Host-"
_DELETED = "; Expires=Thu, 01 Jan 1970 00:00:00 GMT"


class CallOrigin(NamedTuple):
    """The address that a call came from, and whether it came over TLS."""

    address: str = ""
    is_secure: bool = False


def read_origin(
    scope: Scope,
    headers: Mapping[str, str],
    proxies: Collection[IPv4Network | IPv6Network],
    *,
    behind_tls: bool,
) -> CallOrigin:
    """Return the origin of a call; what a proxy forwards counts only from `proxies`."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    is_secure = behind_tls or scope.get("scheme") == "https"
    if not proxies or not _is_within(address, proxies):
        return CallOrigin(address, is_secure)
    scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    # Each proxy appends the address that it was called from. Anything before those of trusted
    # proxies was written by the caller.
    for part in reversed(headers.get("x-forwarded-for", "").split(",")):
        name = part.strip().strip("[]")
        if not name:
            break
        address = name
        if not _is_within(name, proxies):
            break
    return CallOrigin(address, is_secure or scheme == "https")


def _is_within(address: str, networks: Collection[IPv4Network | IPv6Network]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)


def cookie_name(name: str, *, is_secure: bool) -> str:
    """Return the name that a cookie has over this kind of connection."""
    return f"{_HOST_PREFIX}{name}" if is_secure else name


def make_cookie(
    name: str,
    value: str,
    *,
    is_secure: bool,
    lifetime: timedelta = COOKIE_LIFETIME,
    same_site: str = "Strict",
) -> str:
    """Return an HttpOnly cookie for this service; a lifetime of zero deletes it.

    With `same_site="Lax"`, browsers also send it when a link of another site leads here.
    """
    age = int(lifetime.total_seconds())
    ends, secure = "" if age else _DELETED, "; Secure" if is_secure else ""
    pair = f"{cookie_name(name, is_secure=is_secure)}={value}"
    return f"{pair}; Path=/; Max-Age={age}{ends}; HttpOnly; SameSite={same_site}{secure}"


def read_cookie(headers: Mapping[str, str], name: str, *, is_secure: bool = False) -> str:
    """Return the value of a cookie, or an empty text."""
    wanted = cookie_name(name, is_secure=is_secure)
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == wanted and value:
            return unquote(value)
    return ""
