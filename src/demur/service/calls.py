"""HTTP as route handlers see it: calls, answers, routes, bodies, queries and headers."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qsl

from starlette.types import Receive

from demur.listener import is_ip_address, is_loopback
from demur.service.authentication import Principal, Role
from demur.service.cookies import CallOrigin
from demur.service.json_body import decode_json, encode_json
from demur.service.problem import ProblemError, forbidden, invalid_call
from demur.source.item import did_you_mean

if TYPE_CHECKING:
    from demur.service.service import Service


P = ParamSpec("P")
T = TypeVar("T")
# A call with a larger body leaves the event loop. Guards take up to a microsecond for each byte of
# a text, and ten for each byte of a command; a decision takes less.
MAX_INLINE_BYTES = 2 << 10
MAX_INLINE_COMMAND_BYTES = 256
MAX_INLINE_REQUEST_BYTES = 16 << 10
# The keys of larger bodies are checked in the pool.
_MAX_CHECKED_BYTES = 64 << 10
# Longer numbers are out of range for every parameter.
_MAX_DIGITS = 9


class ApiAnswer(NamedTuple):
    """The answer to a call; a stream sends `events` as they come, instead of the content."""

    content: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}
    events: AsyncIterator[bytes] | None = None


class ApiCall(NamedTuple):
    """One call: its caller, path, query, body and headers; a stream reads `parts` of the body.

    `receive` tells when the caller hangs up. `in_pool` says that heavy work runs elsewhere.
    `origin` is known for pages, and for calls with a cookie.
    """

    service: "Service"
    caller: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    headers: Mapping[str, str] = {}
    parts: AsyncIterator[bytes] | None = None
    receive: Receive | None = None
    in_pool: bool = False
    origin: CallOrigin = CallOrigin()

    def decode_body(self, kind: type[T]) -> T:
        """Return the body, decoded as a type.

        Raises:
            ProblemError: It is no JSON, or not of that type.
        """
        if len(self.body) <= _MAX_CHECKED_BYTES:
            return decode_json(self.body, kind)
        value = decode_json(self.body, kind, check_keys=False)
        self.service.check_large_body(self.body)
        return value

    async def run_blocking(self, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run a blocking function for the caller on a thread, and return its result."""
        return await self.service.store_pool.run_for(self.caller.name, function, *args, **more)

    def is_heavy(self, max_bytes: int) -> bool:
        """Return whether the call is to leave the event loop: it is large, or its key is busy."""
        return len(self.body) > max_bytes or self.service.budgets.is_busy(self.caller.name)

    async def run_heavy(self, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run a function for the caller in the pool of heavy work, and return its result.

        It stops if the caller is cancelled or hangs up.
        """
        run = self.service.heavy_pool.run(self.caller.name, function, *args, **more)
        if self.receive is None:
            return await run
        work = asyncio.ensure_future(run)
        hung_up = asyncio.ensure_future(wait_for_disconnect(self.receive))
        try:
            await asyncio.wait({work, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise invalid_call(400, "the caller hung up")
            return work.result()
        finally:
            work.cancel()
            hung_up.cancel()

    def read_number(self, name: str, default: int, *, maximum: int) -> int:
        """Return a whole number of the query, from 1 to `maximum`.

        Raises:
            ProblemError: It is no number, or out of range.
        """
        text = self.query.get(name)
        if text is None:
            return default
        usual = len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
        if not usual or not 1 <= int(text) <= maximum:
            raise invalid_call(422, f"`{text[:40]}` is not a number from 1 to {maximum}", name)
        return int(text)

    def chosen_tenant(self) -> str | None:
        """Return the tenant to read: the caller's own, or the one that a key of all tenants names.

        Raises:
            ProblemError: The caller may not see them.
        """
        named = self.query.get("tenant")
        if named is None or named == self.caller.tenant:
            return self.caller.tenant
        if self.caller.tenant is not None:
            raise forbidden("this key belongs to another tenant")
        return named


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the caller hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def json_answer(value: Any, status: int = 200, **headers: str) -> ApiAnswer:
    """Return a value as JSON."""
    return ApiAnswer(encode_json(value), status, headers=headers)


Handler = Callable[[ApiCall], Awaitable[ApiAnswer]]
BlockingHandler = Callable[[ApiCall], Any]


class QueryField(NamedTuple):
    """A query parameter."""

    name: str
    description: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


def number_parameter(name: str, description: str, maximum: int) -> QueryField:
    """Return a query parameter that is a whole number from 1 on."""
    return QueryField(name, description, {"type": "integer", "minimum": 1, "maximum": maximum})


TENANT_PARAMETER = QueryField("tenant", "Only this tenant, for a key of all tenants.")
_JSON = "application/json"
_JSON_LINES = "application/x-ndjson"
_LOG_TYPES = (
    "text/plain",
    "application/octet-stream",
    "application/gzip",
    "application/zstd",
    _JSON_LINES,
)


class ApiRoute(NamedTuple):
    """One operation. `takes` and `gives` are the types, or schemas, of its input and output.

    `role` None means that no key is needed. `log` says that the body is a log, which may be
    larger than other bodies. `stream` says that the body is JSON lines, which are answered by
    server-sent events as they come, and `lines` are the types of both. `all_tenants` says that
    the route needs a key for all tenants. `success` is the status of an answer, `example` a
    valid body, and `path_schemas` are the schemas of the path's parameters. `waits_s` is how long
    an answer may take beyond the usual limit, for long polling.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    role: Role | None
    takes: Any = None
    gives: Any = None
    query: tuple[QueryField, ...] = ()
    statuses: tuple[int, ...] = ()
    media_type: str = _JSON
    log: bool = False
    stream: bool = False
    lines: tuple[type[Any], ...] = ()
    all_tenants: bool = False
    success: int = 200
    example: Any = None
    path_schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    waits_s: float = 0.0

    @property
    def body_types(self) -> tuple[str, ...]:
        """The media types of its body."""
        if self.stream:
            return (_JSON_LINES,)
        return _LOG_TYPES if self.log else (_JSON,)


class RouteTable(list[ApiRoute]):
    """The routes of one topic; handlers join it by decorator."""

    def add(
        self, place: str, name: str, role: Role | None, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Add a handler at a place like `GET /health`; its docstring is the route's summary."""

        def register(handler: Handler) -> Handler:
            method, path = place.split()
            summary = (handler.__doc__ or "").partition("\n")[0].rstrip(".")
            self.append(ApiRoute(method, path, name, summary, handler, role, **more))
            return handler

        return register

    def add_sync(
        self, place: str, name: str, role: Role | None, **more: Any
    ) -> Callable[[BlockingHandler], BlockingHandler]:
        """Add a function that runs on a thread; its result is answered as JSON."""

        def register(function: BlockingHandler) -> BlockingHandler:
            @wraps(function)
            async def handler(call: ApiCall) -> ApiAnswer:
                def answer() -> ApiAnswer:
                    return json_answer(function(call), more.get("success", 200))

                heavy = len(call.body) > MAX_INLINE_BYTES
                return await (call.run_heavy(answer) if heavy else call.run_blocking(answer))

            self.add(place, name, role, **more)(handler)
            return function

        return register


async def read_body(
    route: ApiRoute, headers: Mapping[str, str], receive: Receive, max_bytes: int, timeout_s: float
) -> bytes:
    """Return the whole body.

    Raises:
        ProblemError: It is too large, too slow, incomplete, or of another type.
    """
    try:
        _check_head(route, headers, max_bytes)
        async with asyncio.timeout(timeout_s):
            return await _read_parts(receive, max_bytes)
    except TimeoutError:
        error = invalid_call(408, f"the body was not received within {timeout_s:g} s")
    except ProblemError as problem:
        error = problem
    # Close the connection, so that the rest of the body need not be read.
    error.headers["connection"] = "close"
    raise error


def _check_head(route: ApiRoute, headers: Mapping[str, str], max_bytes: int) -> None:
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    if route.takes is None:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in route.body_types:
        allowed = " or ".join(route.body_types)
        raise invalid_call(415, f"the body must be {allowed}", "content-type")


async def _read_parts(receive: Receive, max_bytes: int) -> bytes:
    parts = [part async for part in _receive_parts(receive, max_bytes)]
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _receive_parts(
    receive: Receive, max_bytes: int, first_s: float | None = None, total_s: float | None = None
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    end = None if total_s is None else loop.time() + total_s
    limit = None if first_s is None else loop.time() + first_s
    size, more = 0, True
    while more:
        async with asyncio.timeout_at(limit):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise invalid_call(400, "the body is incomplete")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        more, limit = message.get("more_body", False), end
        yield part


async def stream_body(
    route: ApiRoute,
    headers: Mapping[str, str],
    receive: Receive,
    max_bytes: int,
    *,
    first_s: float,
    total_s: float,
) -> AsyncIterator[bytes]:
    """Yield the parts of a body as they come: the first within `first_s`, all within `total_s`.

    Raises:
        ProblemError: It is too large, too slow, incomplete, or of another type.
    """
    _check_head(route, headers, max_bytes)
    try:
        async for part in _receive_parts(receive, max_bytes, first_s, total_s):
            yield part
    except TimeoutError:
        problem = f"nothing came within {first_s:g} s, or the end not within {total_s:g} s"
        raise invalid_call(408, problem) from None


def format_event(name: str, value: Any) -> bytes:
    """Return a server-sent event whose data is JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_json(value))


def _too_large(max_bytes: int) -> ProblemError:
    return invalid_call(413, f"the body must not exceed {max_bytes} bytes")


_MAX_PARAMETERS = 50
_MAX_VALUE_LENGTH = 500


def read_query(raw: bytes, parameters: Sequence[QueryField] | None = None) -> dict[str, str]:
    """Return the parameters of a query; with `parameters`, only those are allowed.

    Raises:
        ProblemError: A parameter is invalid, duplicate or unknown.
    """
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS
        )
    except ValueError:
        raise invalid_call(400, f"a query has at most {_MAX_PARAMETERS} parameters") from None
    read: dict[str, str] = {}
    schemas = None if parameters is None else {query.name: query.schema for query in parameters}
    for name, value in pairs:
        if schemas is not None and name not in schemas:
            meant = did_you_mean(name[:80], schemas) or f"one of {', '.join(schemas) or 'none'}"
            raise invalid_call(422, f"unknown parameter `{name[:80]}`", help=meant)
        if name in read:
            raise invalid_call(422, "duplicate parameter", name[:80])
        if len(value) > _MAX_VALUE_LENGTH or not value.isprintable():
            raise invalid_call(422, f"at most {_MAX_VALUE_LENGTH} printable characters", name[:80])
        choices = () if schemas is None else schemas[name].get("enum", ())
        if choices and value not in choices:
            listed = ", ".join(map(str, choices))
            raise invalid_call(
                422, f"`{value[:80]}` is not an allowed value", name, f"one of {listed}"
            )
        read[name] = value
    return read


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
_X_FORWARDED_HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")
_FORWARDED_HEADERS = ("forwarded", "via", "x-real-ip", *_X_FORWARDED_HEADERS)


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name.

    Raises:
        ProblemError: One of the security-relevant headers occurs twice.
    """
    read: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1")
        if name in read and name in _SINGLE_HEADERS:
            raise invalid_call(400, "duplicate header", name)
        read[name] = value.decode("latin-1")
    return read


def read_token(headers: Mapping[str, str]) -> str | None:
    """Return the key that a call sends as a bearer token."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Return whether a proxy forwarded the call, so that its address says nothing."""
    return any(name in headers for name in _FORWARDED_HEADERS)


def check_host(host_header: str, names: Collection[str]) -> None:
    """Refuse a call to an unknown host name, against DNS rebinding.

    Raises:
        ProblemError: The name is unknown.
    """
    host = host_header.lower()
    if host.startswith("["):
        host = host.partition("]")[0].strip("[]")
    elif host.count(":") == 1:
        host = host.rpartition(":")[0]
    # DNS cannot point an IP address elsewhere.
    if not (host in names or is_loopback(host) or is_ip_address(host)):
        problem = "this service does not answer to that host name"
        help_text = "name it under `hosts` in the service's settings"
        raise invalid_call(421, problem, help=help_text)


def check_origin(method: str, site: str, origin: str, host: str) -> None:
    """Refuse a change that a page of another site requests.

    Raises:
        ProblemError: The call comes from another site.
    """
    if method in {"GET", "HEAD", "OPTIONS"}:
        return
    foreign = bool(origin) and origin.partition("://")[2].lower() != host.lower()
    if site not in _SAME_SITE or foreign:
        raise forbidden("cross-site calls are not allowed")


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
