"""The frame of every page: the caller, the tenant, and the navigation."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from demur.errors import DemurError
from demur.service.access import LOCAL, Role
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.rendering import render_template
from demur.service.sample.day import SAMPLE_TENANT
from demur.version import __version__

__all__ = [
    "CLIENT",
    "HTML",
    "COOKIE_LIFETIME",
    "SCHEME",
    "TARGET",
    "TENANT_COOKIE",
    "PageFrame",
    "PageView",
    "make_cookie",
    "read_cookie",
    "is_local_path",
    "render_on_thread",
    "render_page",
    "tenant_cookie",
    "apply_tenant_choice",
]

HTML = "text/html; charset=utf-8"
TENANT_COOKIE = "demur_tenant"
# Internal headers for target, scheme and client address; no caller can send such names.
TARGET, SCHEME, CLIENT = ":target", ":scheme", ":client"
_MAX_TENANTS = 200
_MAX_TENANT_LENGTH = 256
COOKIE_LIFETIME = timedelta(hours=12)
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
        answer = await call.service.run_page(view, apply_tenant_choice(call))
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
        named = query.pop("tenant", None)
        chosen = read_cookie(call.headers, TENANT_COOKIE) if named is None else named
        if chosen:
            query["tenant"] = chosen
    return call._replace(query=query)


def render_page(
    call: ApiCall, template: str, *, title: str, section: str = "", status: int = 200, **values: Any
) -> ApiAnswer:
    """Return a rendered page in its frame."""
    frame = _build_frame(call, title, section)
    return ApiAnswer(render_template(template, frame=frame, **values), status, HTML, _PAGE_HEADERS)


def _build_frame(call: ApiCall, title: str, section: str) -> PageFrame:
    caller = call.caller
    reads = caller.has_role(Role.READ)
    tenants = _list_tenants(call) if reads and caller.tenant is None else []
    shown = call.query.get("tenant", "") if caller.tenant is None else caller.tenant
    sample = call.service.sample or SAMPLE_TENANT in tenants or shown == SAMPLE_TENANT
    return PageFrame(
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


def _list_tenants(call: ApiCall) -> list[str]:
    try:
        heads = call.service.store.list_heads()
    except DemurError:
        # Render the frame without tenants, so that error pages work without a store.
        return []
    return [head.tenant for head in heads][:_MAX_TENANTS]


def read_cookie(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie, or an empty text."""
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return unquote(value)
    return ""


def make_cookie(call: ApiCall, pair: str, lifetime: timedelta = COOKIE_LIFETIME) -> str:
    """Return an HttpOnly cookie for this service; a lifetime of zero deletes it."""
    secure = "; Secure" if call.headers.get(SCHEME) == "https" else ""
    age = int(lifetime.total_seconds())
    ends = "" if age else "; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    return f"{pair}; Path=/; Max-Age={age}{ends}; HttpOnly; SameSite=Strict{secure}"


def tenant_cookie(call: ApiCall, name: str) -> str:
    """Return the cookie that keeps the chosen tenant."""
    return make_cookie(call, f"{TENANT_COOKIE}={quote(name[:_MAX_TENANT_LENGTH], safe='')}")


def is_local_path(text: str) -> bool:
    """Return whether a text is a path on this service, and not a link elsewhere."""
    return text.startswith("/") and text[1:2] not in {"/", "\\"} and text.isprintable()
