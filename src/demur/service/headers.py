"""Security headers, and checks of the host and origin of a call."""

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address

from demur.codes.reason_code import ReasonCode
from demur.service.problem import ProblemError, invalid_request
from demur.service.settings import is_loopback

__all__ = [
    "COOKIE",
    "CONTENT_SECURITY_POLICY",
    "SECURITY_HEADERS",
    "check_host",
    "check_origin",
    "is_forwarded",
    "read_headers",
    "safe_headers",
    "read_token",
    "with_security",
]

COOKIE = "demur_key"
# Pages load everything from the service itself, and only templates write into them.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
_SAME_SITE = {"same-origin", "none", ""}
# A duplicate of these lets two readers see two different calls.
_SINGLE_HEADERS = frozenset(
    {"authorization", "content-length", "content-type", "cookie", "host", "origin"}
    | {"sec-fetch-site", "transfer-encoding"}
)
_FORWARDED_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name.

    Raises:
        ProblemError: One of the security-relevant headers occurs twice.
    """
    read: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1")
        if name in read and name in _SINGLE_HEADERS:
            raise invalid_request(400, "duplicate header", name)
        read[name] = value.decode("latin-1")
    return read


def read_token(headers: Mapping[str, str]) -> str | None:
    """Return the key of a call: a bearer token, or the cookie of the dashboard."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Return whether a proxy forwarded the call, so that its address says nothing."""
    return any(name in headers for name in _FORWARDED_HEADERS)


def check_host(host_header: str, names: Collection[str]) -> None:
    """Refuse a call to an unknown host name, against DNS rebinding.

    Raises:
        ProblemError: The name is unknown.
    """
    host = _strip_port(host_header.lower())
    if not (host in names or is_loopback(host) or _is_ip_address(host)):
        raise ProblemError(
            421,
            ReasonCode.REQUEST_INVALID,
            "this service does not answer to that host name",
            help="name it under `hosts` in the service's settings",
        )


def check_origin(method: str, site: str, origin: str, host: str) -> None:
    """Refuse a change that a page of another site requests.

    Raises:
        ProblemError: The call comes from another site.
    """
    if method in {"GET", "HEAD", "OPTIONS"}:
        return
    foreign = bool(origin) and origin.partition("://")[2].lower() != host.lower()
    if site not in _SAME_SITE or foreign:
        raise ProblemError(403, ReasonCode.PERMISSION_DENIED, "cross-site calls are not allowed")


def _strip_port(host: str) -> str:
    """Return a host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].strip("[]")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_ip_address(host: str) -> bool:
    """Return whether it is an IP address, which DNS cannot point elsewhere."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def safe_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers to send, without characters that could start another header."""
    return [
        (
            name.replace("_", "-").lower().encode("ascii", "ignore"),
            "".join(filter(str.isprintable, value)).encode("latin-1", "replace"),
        )
        for name, value in headers.items()
    ]


def with_security(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers with the security headers added; those already set stay."""
    own = list(headers)
    there = {name for name, _ in own}
    return [*own, *(pair for pair in SECURITY_HEADERS if pair[0] not in there)]
