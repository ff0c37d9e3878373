"""All pages of the dashboard as routes, with the login and the page of codes."""

from inspect import iscoroutinefunction
from typing import Any, cast

from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from demur.codes.vocabulary import RefusalClass, Severity
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, Handler, read_headers
from demur.service.dashboard.api import api_page
from demur.service.dashboard.approvals import (
    approval_page,
    approvals_page,
    approve_form,
    decline_form,
)
from demur.service.dashboard.decision_list import decisions_page
from demur.service.dashboard.decisions import decision_page, replay_page
from demur.service.dashboard.downloads import download_list
from demur.service.dashboard.evals import compare_page, eval_run_page, evals_page
from demur.service.dashboard.frame import (
    NotFoundEndpoint,
    PageEndpoint,
    PageView,
    parse_form,
    render_on_thread,
    render_page,
    tenant_cookie,
    wants_html,
)
from demur.service.dashboard.guards import guards_page
from demur.service.dashboard.login import (
    account_page,
    begin_sign_in,
    change_own_password,
    finish_sign_in,
    log_in,
    log_out,
    login_page,
    redirect_with,
)
from demur.service.dashboard.overview import overview_page, reason_page, reasons_page
from demur.service.dashboard.people import change_people, people_page
from demur.service.dashboard.rendering import serve_asset
from demur.service.dashboard.report import report_page
from demur.service.dashboard.review import label_cases, label_decision, review_page
from demur.service.dashboard.triage import triage_page, triage_upload
from demur.service.problem import invalid_call
from demur.service.service import Service

__all__ = ["PAGES", "page_routes"]

# The class of codes that allow.
NO_CLASS = "allows"


async def switch_tenant(call: ApiCall) -> ApiAnswer:
    """Choose another tenant, for a key of all tenants."""
    form = parse_form(call.body)
    cookie = tenant_cookie(call, form.get("tenant", ""))
    return redirect_with(form.get("next", "/"), cookie)


def codes_page(call: ApiCall) -> ApiAnswer:
    """Return the page; with `q`, `class` or `severity`, only the codes that fit."""
    registry = call.service.gate.registry
    chosen = {name: call.query.get(name, "") for name in ("class", "severity")}
    search_text = call.query.get("q", "").strip()
    words = search_text.casefold()
    found = [
        entry
        for entry in registry
        if chosen["class"] in {"", entry.refusal_class or NO_CLASS}
        and chosen["severity"] in {"", entry.severity}
        and (
            words.replace(" ", "_") in entry.code.casefold()
            or words in f"{entry.title} {entry.description} {' '.join(entry.aliases)}".casefold()
        )
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
        chosen=chosen,
        classes=[*map(str, RefusalClass), NO_CLASS],
        severities=list(map(str, Severity)),
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
    _route("GET /download/{name}", "a list as a file", download_list),
    _route("GET /approvals", "approvals", approvals_page),
    _route("GET /approvals/{decision_id}", "one approval", approval_page),
    _route("POST /approvals/{decision_id}/approve", "approve", approve_form, Role.APPROVE),
    _route("POST /approvals/{decision_id}/decline", "decline", decline_form, Role.APPROVE),
    _route("GET /reasons", "reasons", reasons_page),
    _route("GET /reasons/{code:path}", "one reason", reason_page),
    _route("GET /guards", "guards", guards_page),
    _route("GET /review", "the review queue", review_page),
    _route("POST /review/label", "label equal cases", label_cases, Role.LABEL),
    _route("GET /evals", "evals", evals_page, all_tenants=True),
    _route("GET /compare-evals", "compare evals", compare_page, all_tenants=True),
    _route("GET /evals/{name:path}", "one eval", eval_run_page, all_tenants=True),
    _route("GET /codes", "codes", codes_page),
    _route("GET /report", "the report on a period", report_page),
    _route("GET /triage", "triage", triage_page),
    _route("POST /triage", "count a log", triage_upload, log=True),
    _route("GET /docs", "the API", api_page),
    _route("GET /login", "the login", login_page, None),
    _route("POST /login", "log in", log_in, None),
    _route("GET /login/oidc", "sign in elsewhere", begin_sign_in, None),
    _route("GET /login/oidc/callback", "come back signed in", finish_sign_in, None),
    _route("POST /logout", "log out", log_out, None),
    _route("GET /account", "your account", account_page),
    _route("POST /account", "change your password", change_own_password),
    _route("GET /people", "people", people_page, Role.ADMIN),
    _route("POST /people", "add or change a person", change_people, Role.ADMIN),
    _route("POST /tenant", "look at another tenant", switch_tenant),
    _route("GET /static/{name}", "a static file", serve_asset, None),
)


async def _raise_not_found(_: ApiCall) -> ApiAnswer:
    raise invalid_call(404, "no such page", help="the menu leads to every page")


_NOT_FOUND = _route("GET /", "nothing", _raise_not_found)


def page_routes(service: Service) -> list[StarletteRoute]:
    """Return the routes of all pages of a service."""
    pages = [
        StarletteRoute(route.path, PageEndpoint(route, service), methods=[route.method])
        for route in PAGES
    ]
    return [*pages, _NotFoundRoute("/{path:path}", NotFoundEndpoint(_NOT_FOUND, service))]


class _NotFoundRoute(StarletteRoute):
    """Matches unknown paths for browsers, which get a page; programs get problem details."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if a browser asks for an unknown path."""
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            path: str = scope["path"]
            if not path.startswith("/v1/") and wants_html(read_headers(scope["headers"])):
                return super().matches(scope)
        return Match.NONE, {}
