"""The frame of every page: the caller, the tenant, and the navigation."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from demur.errors import DemurError
from demur.service.access import LOCAL, Role
from demur.service.call import Answer, Call
from demur.service.dashboard.rendering import render
from demur.service.sample.day import SAMPLE_TENANT
from demur.version import __version__

__all__ = [
    "CLIENT",
    "HTML",
    "KEPT",
    "SCHEME",
    "TARGET",
    "TENANT_COOKIE",
    "Frame",
    "View",
    "cookie_for",
    "cookie_of",
    "is_path",
    "on_thread",
    "page",
    "tenant_cookie",
    "viewed",
]

HTML = "text/html; charset=utf-8"
TENANT_COOKIE = "demur_tenant"
# Internal headers for target, scheme and client address; no caller can send such names.
TARGET, SCHEME, CLIENT = ":target", ":scheme", ":client"
_MOST_TENANTS = 200
_LONGEST_TENANT = 256
KEPT = timedelta(hours=12)
# With `no-referrer`, browsers send no origin with forms.
_HEADERS = {"referrer-policy": "same-origin"}

View = Callable[[Call], Answer]


class Frame(msgspec.Struct, frozen=True, kw_only=True):
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


def on_thread(view: View) -> Callable[[Call], Awaitable[Answer]]:
    """Return a handler that renders a view on a thread, for the chosen tenant."""

    async def handler(call: Call) -> Answer:
        answer = await call.service.show(view, viewed(call))
        if call.caller.tenant is None and "tenant" in call.query:
            # A tenant in the query becomes the choice for the following pages.
            chosen = tenant_cookie(call, call.query["tenant"])
            answer = answer._replace(headers={**answer.headers, "set-cookie": chosen})
        return answer

    return handler


def viewed(call: Call) -> Call:
    """Return the call with the chosen tenant, for a key of all tenants."""
    query = dict(call.query)
    if call.caller.tenant is None:
        named = query.pop("tenant", None)
        chosen = cookie_of(call.headers, TENANT_COOKIE) if named is None else named
        if chosen:
            query["tenant"] = chosen
    return call._replace(query=query)


def page(
    call: Call, template: str, *, title: str, section: str = "", status: int = 200, **values: Any
) -> Answer:
    """Return a rendered page in its frame."""
    frame = _frame(call, title, section)
    return Answer(render(template, frame=frame, **values), status, HTML, _HEADERS)


def _frame(call: Call, title: str, section: str) -> Frame:
    caller = call.caller
    reads = caller.may(Role.READ)
    tenants = _tenants(call) if reads and caller.tenant is None else []
    shown = call.query.get("tenant", "") if caller.tenant is None else caller.tenant
    sample = call.service.sample or SAMPLE_TENANT in tenants or shown == SAMPLE_TENANT
    return Frame(
        title=title,
        section=section,
        name=caller.name if reads and caller != LOCAL else None,
        tenant=shown,
        tenants=tenants,
        may_label=caller.may(Role.LABEL),
        sees_all=reads and caller.tenant is None,
        sample=reads and sample and shown in {"", SAMPLE_TENANT},
        target=call.headers.get(TARGET, "/"),
    )


def _tenants(call: Call) -> list[str]:
    try:
        heads = call.service.store.heads()
    except DemurError:
        # Render the frame without tenants, so that error pages work without a store.
        return []
    return [head.tenant for head in heads][:_MOST_TENANTS]


def cookie_of(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie, or an empty text."""
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return unquote(value)
    return ""


def cookie_for(call: Call, pair: str, kept: timedelta = KEPT) -> str:
    """Return an HttpOnly cookie for this service; a lifetime of zero deletes it."""
    secure = "; Secure" if call.headers.get(SCHEME) == "https" else ""
    age = int(kept.total_seconds())
    ends = "" if age else "; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    return f"{pair}; Path=/; Max-Age={age}{ends}; HttpOnly; SameSite=Strict{secure}"


def tenant_cookie(call: Call, name: str) -> str:
    """Return the cookie that keeps the chosen tenant."""
    return cookie_for(call, f"{TENANT_COOKIE}={quote(name[:_LONGEST_TENANT], safe='')}")


def is_path(text: str) -> bool:
    """Return whether a text is a path on this service, and not a link elsewhere."""
    return text.startswith("/") and text[1:2] not in {"/", "\\"} and text.isprintable()
