"""All pages of the dashboard as routes, with the login and the page of codes."""

from datetime import timedelta

from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from demur.service.authentication import NOBODY, Principal, Role
from demur.service.calls import COOKIE, ApiAnswer, ApiCall, ApiRoute, Handler, read_headers
from demur.service.dashboard.decisions import decision_page, decisions_page, replay_page
from demur.service.dashboard.evals import eval_run_page, evals_page
from demur.service.dashboard.frame import (
    CLIENT,
    PageEndpoint,
    is_local_path,
    make_cookie,
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
from demur.service.problem import ProblemError, invalid_request
from demur.service.service import Service

_MAX_KEY_LENGTH = 200


async def login_page(call: ApiCall) -> ApiAnswer:
    """Return the form that asks for a key."""
    return _render_login(call, call.query.get("next", "/"), "")


async def log_in(call: ApiCall) -> ApiAnswer:
    """Log in with a key that has the role `read`.

    Raises:
        ProblemError: There were too many attempts.
    """
    given = parse_form(call.body)
    token, goal = given.get("key", "").strip(), given.get("next", "/")
    problem = "An API key is required." if not token else ""
    if not problem:
        caller = await _authenticate_key(call, token[:_MAX_KEY_LENGTH])
        if isinstance(caller, ProblemError):
            problem = f"{caller.problem[:1].upper()}{caller.problem[1:]}."
        elif not caller.has_role(Role.READ):
            problem = "This key may not read decisions."
    if problem:
        return _render_login(call, goal, problem)
    return _redirect_with_cookie(goal, make_cookie(call, f"{COOKIE}={token}"))


async def _authenticate_key(call: ApiCall, token: str) -> Principal | ProblemError:
    """Return the caller that a key belongs to, or the error."""
    door = call.service.authenticator
    known = door.cached_principal(token)
    if known is None:
        call.service.login_limiter.count_attempt(call.headers.get(CLIENT, ""))
        try:
            known = await door.authenticate(token)
        except ProblemError as error:
            return error
    return known


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
    """Delete the cookie with the key."""
    return _redirect_with_cookie("/login", make_cookie(call, f"{COOKIE}=", timedelta()))


async def switch_tenant(call: ApiCall) -> ApiAnswer:
    """Choose another tenant, for a key of all tenants."""
    given = parse_form(call.body)
    return _redirect_with_cookie(
        given.get("next", "/"), tenant_cookie(call, given.get("tenant", ""))
    )


def _redirect_with_cookie(goal: str, cookie: str) -> ApiAnswer:
    location = goal if is_local_path(goal) else "/"
    return ApiAnswer(b"", 303, headers={"location": location, "set-cookie": cookie})


def codes_page(call: ApiCall) -> ApiAnswer:
    """Return the page; with `q`, only the codes that contain it."""
    registry = call.service.gate.registry
    asked = call.query.get("q", "").strip()
    sought = asked.casefold().replace(" ", "_"), asked.casefold()
    found = [
        entry
        for entry in registry
        if sought[0] in entry.code.casefold()
        or sought[1] in f"{entry.title} {entry.description} {' '.join(entry.aliases)}".casefold()
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
        asked=asked,
        families=list(families.items()),
    )


_DECISION_PAGE = "/decisions/{decision_id}"


def _get_route(path: str, name: str, handler: Handler, role: Role | None = Role.READ) -> ApiRoute:
    return ApiRoute("GET", path, name, f"Show {name}", handler, role)


def _post_route(path: str, name: str, handler: Handler, role: Role | None) -> ApiRoute:
    return ApiRoute("POST", path, name, name.capitalize(), handler, role)


PAGES: tuple[ApiRoute, ...] = (
    _get_route("/", "the overview", render_on_thread(overview_page)),
    _get_route("/decisions", "decisions", render_on_thread(decisions_page)),
    _get_route(_DECISION_PAGE, "one decision", render_on_thread(decision_page)),
    _post_route(
        f"{_DECISION_PAGE}/replay", "replay a decision", render_on_thread(replay_page), Role.READ
    ),
    _post_route(
        f"{_DECISION_PAGE}/label", "label a decision", render_on_thread(label_decision), Role.LABEL
    ),
    _get_route("/reasons", "reasons", render_on_thread(reasons_page)),
    _get_route("/reasons/{code:path}", "one reason", render_on_thread(reason_page)),
    _get_route("/review", "the review queue", render_on_thread(review_page)),
    _get_route("/evals", "evals", render_on_thread(evals_page))._replace(all_tenants=True),
    _get_route("/evals/{name:path}", "one eval", render_on_thread(eval_run_page))._replace(
        all_tenants=True
    ),
    _get_route("/codes", "codes", render_on_thread(codes_page)),
    _get_route("/triage", "triage", render_on_thread(triage_page)),
    _post_route("/triage", "count a log", triage_upload, Role.READ)._replace(log=True),
    _get_route("/login", "the login", login_page, None),
    _post_route("/login", "log in", log_in, None),
    _post_route("/logout", "log out", log_out, None),
    _post_route("/tenant", "look at another tenant", switch_tenant, Role.READ),
    _get_route("/static/{name}", "a static file", serve_asset, None),
)


def page_routes(service: Service) -> list[StarletteRoute]:
    """Return the routes of all pages of a service."""
    placed = [
        StarletteRoute(route.path, PageEndpoint(route, service), methods=[route.method])
        for route in PAGES
    ]
    return [
        *placed,
        _NotFoundRoute(
            "/{path:path}",
            PageEndpoint(_get_route("/", "nothing", _raise_not_found, None), service),
        ),
    ]


async def _raise_not_found(_: ApiCall) -> ApiAnswer:
    raise invalid_request(404, "no such page", help="the menu leads to every page")


class _NotFoundRoute(StarletteRoute):
    """Matches unknown paths for browsers, which get a page; programs get problem details."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if a browser asks for an unknown path."""
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            path: str = scope["path"]
            if not path.startswith("/v1/") and wants_html(read_headers(scope["headers"])):
                return super().matches(scope)
        return Match.NONE, {}
