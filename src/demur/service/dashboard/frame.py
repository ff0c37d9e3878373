"""What every page shares: the frame around it, its endpoint, forms, and a short cache."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, urlencode
from weakref import WeakKeyDictionary

import msgspec
from starlette.types import Receive, Scope, Send

from demur.errors import DemurError
from demur.gate.clock import format_timestamp
from demur.service.access import UNROUTED
from demur.service.app import Endpoint, ErrorContext
from demur.service.authentication import LOCAL, NOBODY, Principal, Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute
from demur.service.cookies import TENANT_COOKIE, ZONE_COOKIE, CallOrigin, make_cookie, read_cookie
from demur.service.dashboard.counts import count_waiting
from demur.service.dashboard.rendering import render_template
from demur.service.dashboard.time_range import ZONES, TimeRange, carried_query
from demur.service.problem import ProblemError, invalid_call
from demur.service.sample import SAMPLE_TENANT
from demur.service.service import Service
from demur.version import __version__

HTML = "text/html; charset=utf-8"
# An internal header for the target; no caller can send such a name.
TARGET = ":target"
_MAX_TENANTS = 200
_BADGE_CACHE_S = 5.0
_MAX_TENANT_LENGTH = 256
# With `no-referrer`, browsers send no origin with forms.
_PAGE_HEADERS = {"referrer-policy": "same-origin"}

PageView = Callable[[ApiCall], ApiAnswer]


class PageFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The frame of a page; `carried` are the parameters that all of its links keep.

    `badges` are the numbers beside the names of pages in the menu: what waits for somebody.
    """

    title: str
    section: str
    name: str | None
    tenant: str
    tenants: list[str]
    may_label: bool
    sees_all: bool
    sample: bool
    target: str
    zone: str
    carried: dict[str, str]
    badges: dict[str, int] = {}
    may_admin: bool = False
    person: str | None = None
    version: str = __version__


def render_on_thread(view: PageView) -> Callable[[ApiCall], Awaitable[ApiAnswer]]:
    """Return a handler that renders a view on a thread, for the chosen tenant."""

    async def handler(call: ApiCall) -> ApiAnswer:
        pool = call.service.page_pool
        answer = await pool.run_for(call.caller.name, view, apply_tenant_choice(call))
        if call.caller.tenant is None and "tenant" in call.query:
            # A tenant in the query becomes the choice for the following pages.
            chosen = tenant_cookie(call, call.query["tenant"])
            answer = answer._replace(headers={**answer.headers, "set-cookie": chosen})
        elif call.query.get("zone") in ZONES:
            chosen = make_cookie(ZONE_COOKIE, call.query["zone"], is_secure=call.origin.is_secure)
            answer = answer._replace(headers={**answer.headers, "set-cookie": chosen})
        return answer

    return handler


def apply_tenant_choice(call: ApiCall) -> ApiCall:
    """Return the call with the chosen tenant, for a key of all tenants."""
    query = dict(call.query)
    if call.caller.tenant is None:
        secure = call.origin.is_secure
        query.setdefault("tenant", read_cookie(call.headers, TENANT_COOKIE, is_secure=secure))
        # A cookie may hold anything; parameters are checked, and this becomes one.
        if not query["tenant"] or not query["tenant"].isprintable():
            del query["tenant"]
    return call._replace(query=query)


def render_page(
    call: ApiCall,
    template: str,
    *,
    title: str,
    section: str = "",
    status: int = 200,
    time_range: TimeRange | None = None,
    badges: Mapping[str, int] | None = None,
    **values: Any,
) -> ApiAnswer:
    """Return a rendered page in its frame; its links carry its time range and its zone."""
    caller = call.caller
    reads = caller.has_role(Role.READ)
    tenants = _list_tenants(call) if reads and caller.tenant is None else []
    shown = call.query.get("tenant", "") if caller.tenant is None else caller.tenant
    sample = call.service.sample or SAMPLE_TENANT in tenants or shown == SAMPLE_TENANT
    frame = PageFrame(
        title=title,
        section=section,
        name=caller.name if reads and caller != LOCAL else None,
        tenant=shown,
        tenants=tenants,
        may_label=caller.has_role(Role.LABEL),
        may_admin=caller.has_role(Role.ADMIN),
        person=caller.person,
        sees_all=reads and caller.tenant is None,
        sample=reads and sample and shown in {"", SAMPLE_TENANT},
        target=call.headers.get(TARGET, "/"),
        zone=_chosen_zone(call),
        carried=carried_query(call.query, time_range),
        badges={**_count_badges(call), **(badges or {})},
    )
    values["time_range"] = time_range
    return ApiAnswer(render_template(template, frame=frame, **values), status, HTML, _PAGE_HEADERS)


def _count_badges(call: ApiCall) -> dict[str, int]:
    """Return what waits for the caller, cached for a few seconds."""
    counts = {}
    if call.caller.has_role(Role.READ) and call.caller.has_role(Role.LABEL):
        try:
            counts["review"] = count_to_review(call)
        except DemurError:
            # An error page needs no store.
            return {}
    if call.caller.has_role(Role.READ):
        with suppress(DemurError):
            counts["approvals"] = cached_result(
                call.service, approvals_key(call), _BADGE_CACHE_S, lambda: count_approvals(call)
            )
    return counts


def count_to_review(call: ApiCall) -> int:
    """Return how many cases wait for a label, cached for a few seconds."""
    service, tenant = call.service, call.chosen_tenant()
    return cached_result(
        service,
        waiting_key(call),
        _BADGE_CACHE_S,
        lambda: sum(count_waiting(service.store, tenant, service.clock()).values()),
    )


def count_approvals(call: ApiCall) -> int:
    """Return how many requests wait for approval."""
    now = format_timestamp(call.service.clock())
    return call.service.store.count_waiting(call.chosen_tenant(), now=now)


def approvals_key(call: ApiCall) -> Hashable:
    """Return the key of the cached count of what waits for approval."""
    return ("approvals", call.chosen_tenant())


def waiting_key(call: ApiCall) -> Hashable:
    """Return the key of the cached count of what waits for a label."""
    return ("waiting", call.chosen_tenant())


def _chosen_zone(call: ApiCall) -> str:
    asked = call.query.get("zone", "")
    if asked not in ZONES:
        asked = read_cookie(call.headers, ZONE_COOKIE, is_secure=call.origin.is_secure)
    return asked if asked in ZONES else ZONES[0]


def _list_tenants(call: ApiCall) -> list[str]:
    try:
        heads = call.service.store.list_heads()
    except DemurError:
        # Render the frame without tenants, so that error pages work without a store.
        return []
    return [head.tenant for head in heads][:_MAX_TENANTS]


def tenant_cookie(call: ApiCall, name: str) -> str:
    """Return the cookie that keeps the chosen tenant."""
    value = quote(name[:_MAX_TENANT_LENGTH], safe="")
    return make_cookie(TENANT_COOKIE, value, is_secure=call.origin.is_secure)


def describe_error(error: DemurError) -> str:
    """Return an error as sentences for a page."""
    help_text = f" {error.help[:1].upper()}{error.help[1:]}." if error.help else ""
    return f"{error.problem[:1].upper()}{error.problem[1:]}.{help_text}"


def is_local_path(text: str) -> bool:
    """Return whether a text is a path on this service, and not a link elsewhere."""
    return text.startswith("/") and text[1:2] not in {"/", "\\"} and text.isprintable()


class PageEndpoint(Endpoint):
    """Answers the calls of one page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call; its target is passed as a header."""
        query = scope["query_string"]
        raw = scope.get("raw_path") or scope["path"].encode()
        target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
        own = TARGET.encode()
        headers = [pair for pair in scope["headers"] if pair[0] != own]
        await super().__call__({**scope, "headers": [*headers, (own, target)]}, receive, send)

    async def error_answer(self, error: ProblemError, context: ErrorContext) -> ApiAnswer:
        """Return an error page, or redirect to the login."""
        headers = context.headers
        if not wants_html(headers):
            return await super().error_answer(error, context)
        if error.status == HTTPStatus.UNAUTHORIZED and self.route.method == "GET":
            goal = urlencode({"next": headers.get(TARGET, "/")})
            return ApiAnswer(b"", 303, headers={"location": f"/login?{goal}"})
        call = ApiCall(self._service, context.caller, {}, {}, b"", headers, origin=context.origin)
        if context.caller != NOBODY:
            # The menu of a known caller names the tenants, which takes the store.
            with suppress(ProblemError):
                return await render_on_thread(lambda call: _render_error(call, error))(call)
        return _render_error(call._replace(caller=NOBODY), error)


class NotFoundEndpoint(PageEndpoint):
    """Answers browsers that ask for an unknown path, in the frame of their caller."""

    def __init__(self, route: ApiRoute, service: Service) -> None:
        super().__init__(route, service)
        self.pattern = UNROUTED

    async def _identify_caller(
        self, scope: Scope, headers: Mapping[str, str], origin: CallOrigin
    ) -> Principal:
        try:
            return await super()._identify_caller(scope, headers, origin)
        except DemurError:
            # Nobody needs a key to learn that there is no such page.
            return NOBODY

    async def _check_access(self, caller: Principal) -> None:
        """Let everybody pass."""


def _render_error(call: ApiCall, error: ProblemError) -> ApiAnswer:
    phrase = HTTPStatus(error.status).phrase
    shown = render_page(call, "error.html", title=phrase, status=error.status, error=error)
    return shown._replace(headers={**shown.headers, **error.headers})


def wants_html(headers: Mapping[str, str]) -> bool:
    """Return whether the caller accepts HTML."""
    return "text/html" in headers.get("accept", "")


_MAX_FORM_FIELDS = 20


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ProblemError: The body is no form, or a field occurs twice.
    """
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)
    except ValueError:
        raise invalid_call(400, "the body is not a form") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise invalid_call(400, "a field of the form occurs twice")
    return fields


def parse_uploaded_file(body: bytes, content_type: str) -> tuple[str, bytes]:
    """Return the name and the content of the first file in a form.

    Raises:
        ProblemError: The form contains no file.
    """
    kind, _, rest = content_type.partition(";")
    _, found, boundary = rest.partition("boundary=")
    if kind.strip().lower() != "multipart/form-data" or not found:
        raise invalid_call(415, "a file must be sent as multipart/form-data", "content-type")
    edge = b"--" + boundary.strip().strip('"').encode("latin-1")
    for part in body.split(edge, _MAX_FORM_FIELDS)[1:-1]:
        head, split, content = part.partition(b"\r\n\r\n")
        _, found_name, name = head.partition(b'filename="')
        if split and found_name:
            shown = name.partition(b'"')[0].decode("utf-8", "replace")[:200]
            return shown, content.removesuffix(b"\r\n")
    raise invalid_call(400, "the form contains no file")


T = TypeVar("T")
_MAX_CACHED_RESULTS = 1000
_results: WeakKeyDictionary[Service, dict[Hashable, tuple[datetime, Any]]] = WeakKeyDictionary()
_cache_lock = Lock()


def cached_result(service: Service, key: Hashable, seconds: float, compute: Callable[[], T]) -> T:
    """Return the result of `compute`, cached for this service and key for some seconds."""
    now = service.clock()
    with _cache_lock:
        cached = _results.setdefault(service, {})
        expires_at, value = cached.get(key, (now, None))
    if now < expires_at:
        return cast("T", value)
    result = compute()
    with _cache_lock:
        if len(cached) >= _MAX_CACHED_RESULTS:
            cached.clear()
        cached[key] = (now + timedelta(seconds=seconds), result)
    return result


def forget_result(service: Service, key: Hashable) -> None:
    """Forget the cached result of a key."""
    with _cache_lock:
        _results.get(service, {}).pop(key, None)
