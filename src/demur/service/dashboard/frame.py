"""What every page shares: the frame around it, its endpoint, forms, and a short cache."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, urlencode
from weakref import WeakKeyDictionary

import msgspec
from starlette.types import Receive, Scope, Send

from demur.errors import DemurError
from demur.service.app import Endpoint
from demur.service.authentication import LOCAL, NOBODY, Role
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.cookies import TENANT_COOKIE, make_cookie, read_cookie
from demur.service.dashboard.rendering import render_template
from demur.service.problem import ProblemError, invalid_call
from demur.service.sample import SAMPLE_TENANT
from demur.service.service import Service
from demur.version import __version__

HTML = "text/html; charset=utf-8"
# An internal header for the target; no caller can send such a name.
TARGET = ":target"
_MAX_TENANTS = 200
_MAX_TENANT_LENGTH = 256
# With `no-referrer`, browsers send no origin with forms.
_PAGE_HEADERS = {"referrer-policy": "same-origin"}

PageView = Callable[[ApiCall], ApiAnswer]


class PageFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The frame of a page."""

    title: str
    section: str
    name: str | None
    tenant: str
    tenants: list[str]
    may_label: bool
    sees_all: bool
    sample: bool
    target: str
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
        return answer

    return handler


def apply_tenant_choice(call: ApiCall) -> ApiCall:
    """Return the call with the chosen tenant, for a key of all tenants."""
    query = dict(call.query)
    if call.caller.tenant is None:
        secure = call.origin.is_secure
        query.setdefault("tenant", read_cookie(call.headers, TENANT_COOKIE, is_secure=secure))
        if not query["tenant"]:
            del query["tenant"]
    return call._replace(query=query)


def render_page(
    call: ApiCall, template: str, *, title: str, section: str = "", status: int = 200, **values: Any
) -> ApiAnswer:
    """Return a rendered page in its frame."""
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
        sees_all=reads and caller.tenant is None,
        sample=reads and sample and shown in {"", SAMPLE_TENANT},
        target=call.headers.get(TARGET, "/"),
    )
    return ApiAnswer(render_template(template, frame=frame, **values), status, HTML, _PAGE_HEADERS)


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

    def error_answer(self, error: ProblemError, headers: Mapping[str, str]) -> ApiAnswer:
        """Return an error page, or redirect to the login."""
        if not wants_html(headers):
            return super().error_answer(error, headers)
        if error.status == HTTPStatus.UNAUTHORIZED and self.route.method == "GET":
            goal = urlencode({"next": headers.get(TARGET, "/")})
            return ApiAnswer(b"", 303, headers={"location": f"/login?{goal}"})
        call = ApiCall(self._service, NOBODY, {}, {}, b"", headers)
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
