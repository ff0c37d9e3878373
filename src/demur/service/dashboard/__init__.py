"""All pages of the dashboard as routes, with the login and the page of codes."""

from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, cast

from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from demur.service.authentication import NOBODY, Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, Handler, read_headers
from demur.service.cookies import COOKIE_LIFETIME, SESSION_COOKIE, make_cookie, read_cookie
from demur.service.dashboard.decisions import decision_page, decisions_page, replay_page
from demur.service.dashboard.evals import eval_run_page, evals_page
from demur.service.dashboard.frame import (
    PageEndpoint,
    PageView,
    is_local_path,
    parse_form,
    render_on_thread,
    render_page,
    tenant_cookie,
    wants_html,
)
from demur.service.dashboard.overview import overview_page, reason_page, reasons_page
from demur.service.dashboard.rendering import serve_asset
from demur.service.dashboard.review import label_decision, review_page
from demur.service.dashboard.triage import triage_page, triage_upload
from demur.service.problem import ProblemError, invalid_call
from demur.service.service import Service

__all__ = ["PAGES", "page_routes"]

_MAX_KEY_LENGTH = 200


async def login_page(call: ApiCall) -> ApiAnswer:
    """Return the form that asks for a key."""
    return _render_login(call, call.query.get("next", "/"), "")


async def log_in(call: ApiCall) -> ApiAnswer:
    """Log in with a key that has the role `read`.

    Raises:
        ProblemError: There were too many attempts.
    """
    form = parse_form(call.body)
    token, goal = form.get("key", "").strip(), form.get("next", "/")
    if not token:
        return _render_login(call, goal, "An API key is required.")
    door = call.service.authenticator
    caller = door.cached_principal(token[:_MAX_KEY_LENGTH])
    if caller is None:
        call.service.login_limiter.count_attempt(call.origin.address)
        try:
            caller = await door.authenticate(token[:_MAX_KEY_LENGTH])
        except ProblemError as error:
            return _render_login(call, goal, f"{error.problem[:1].upper()}{error.problem[1:]}.")
    if not caller.has_role(Role.READ):
        return _render_login(call, goal, "This key may not read decisions.")
    await call.service.count_call(caller)
    secret = await call.run_blocking(door.open_session, caller.name, COOKIE_LIFETIME)
    return _redirect_with_cookie(goal, _session_cookie(call, secret))


def _session_cookie(call: ApiCall, secret: str) -> str:
    lifetime = COOKIE_LIFETIME if secret else timedelta()
    secure = call.origin.is_secure
    return make_cookie(SESSION_COOKIE, secret, is_secure=secure, lifetime=lifetime)


def _render_login(call: ApiCall, goal: str, problem: str) -> ApiAnswer:
    # Without a caller the frame needs no store, so it renders here and not on a thread.
    return render_page(
        call._replace(caller=NOBODY),
        "login.html",
        title="Log in",
        status=401 if problem else 200,
        goal=goal if is_local_path(goal) else "/",
        problem=problem,
    )


async def log_out(call: ApiCall) -> ApiAnswer:
    """End the session, and delete its cookie."""
    door = call.service.authenticator
    secret = read_cookie(call.headers, SESSION_COOKIE, is_secure=call.origin.is_secure)
    if await door.find_session(secret) is not None:
        await call.run_blocking(door.close_session, secret)
    return _redirect_with_cookie("/login", _session_cookie(call, ""))


async def switch_tenant(call: ApiCall) -> ApiAnswer:
    """Choose another tenant, for a key of all tenants."""
    form = parse_form(call.body)
    cookie = tenant_cookie(call, form.get("tenant", ""))
    return _redirect_with_cookie(form.get("next", "/"), cookie)


def _redirect_with_cookie(goal: str, cookie: str) -> ApiAnswer:
    location = goal if is_local_path(goal) else "/"
    return ApiAnswer(b"", 303, headers={"location": location, "set-cookie": cookie})


def codes_page(call: ApiCall) -> ApiAnswer:
    """Return the page; with `q`, only the codes that contain it."""
    registry = call.service.gate.registry
    search_text = call.query.get("q", "").strip()
    words = search_text.casefold()
    found = [
        entry
        for entry in registry
        if words.replace(" ", "_") in entry.code.casefold()
        or words in f"{entry.title} {entry.description} {' '.join(entry.aliases)}".casefold()
    ]
    families: dict[str, list[dict[str, object]]] = {}
    for entry in found:
        families.setdefault(entry.family, []).append(entry.as_json())
    return render_page(
        call,
        "codes.html",
        title="Codes",
        section="codes",
        label=registry.label,
        total=len(registry),
        found=len(found),
        asked=search_text,
        families=list(families.items()),
    )


def _route(
    place: str,
    name: str,
    view: PageView | Handler,
    role: Role | None = Role.READ,
    **more: Any,
) -> ApiRoute:
    """Return the route of a view, which renders on a thread unless it is async."""
    method, path = place.split()
    handler = view if iscoroutinefunction(view) else render_on_thread(cast("PageView", view))
    return ApiRoute(method, path, name, name.capitalize(), handler, role, **more)


PAGES: tuple[ApiRoute, ...] = (
    _route("GET /", "the overview", overview_page),
    _route("GET /decisions", "decisions", decisions_page),
    _route("GET /decisions/{decision_id}", "one decision", decision_page),
    _route("POST /decisions/{decision_id}/replay", "replay a decision", replay_page),
    _route("POST /decisions/{decision_id}/label", "label a decision", label_decision, Role.LABEL),
    _route("GET /reasons", "reasons", reasons_page),
    _route("GET /reasons/{code:path}", "one reason", reason_page),
    _route("GET /review", "the review queue", review_page),
    _route("GET /evals", "evals", evals_page, all_tenants=True),
    _route("GET /evals/{name:path}", "one eval", eval_run_page, all_tenants=True),
    _route("GET /codes", "codes", codes_page),
    _route("GET /triage", "triage", triage_page),
    _route("POST /triage", "count a log", triage_upload, log=True),
    _route("GET /login", "the login", login_page, None),
    _route("POST /login", "log in", log_in, None),
    _route("POST /logout", "log out", log_out, None),
    _route("POST /tenant", "look at another tenant", switch_tenant),
    _route("GET /static/{name}", "a static file", serve_asset, None),
)


async def _raise_not_found(_: ApiCall) -> ApiAnswer:
    raise invalid_call(404, "no such page", help="the menu leads to every page")


_NOT_FOUND = _route("GET /", "nothing", _raise_not_found, None)


def page_routes(service: Service) -> list[StarletteRoute]:
    """Return the routes of all pages of a service."""
    pages = [
        StarletteRoute(route.path, PageEndpoint(route, service), methods=[route.method])
        for route in PAGES
    ]
    return [*pages, _NotFoundRoute("/{path:path}", PageEndpoint(_NOT_FOUND, service))]


class _NotFoundRoute(StarletteRoute):
    """Matches unknown paths for browsers, which get a page; programs get problem details."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if a browser asks for an unknown path."""
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            path: str = scope["path"]
            if not path.startswith("/v1/") and wants_html(read_headers(scope["headers"])):
                return super().matches(scope)
        return Match.NONE, {}
