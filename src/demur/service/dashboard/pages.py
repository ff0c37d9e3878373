"""All pages of the dashboard, as routes that the application takes beside those of the API."""

from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.assets import serve_asset
from demur.service.dashboard.codes import codes_page
from demur.service.dashboard.decision import decision_page, replay_page
from demur.service.dashboard.decisions import decisions_page
from demur.service.dashboard.endpoint import PageEndpoint, wants_html
from demur.service.dashboard.evals import eval_run_page, evals_page
from demur.service.dashboard.frame import render_on_thread
from demur.service.dashboard.labelling import label_decision
from demur.service.dashboard.login import log_in, login_page, log_out, switch_tenant
from demur.service.dashboard.overview import overview_page
from demur.service.dashboard.reasons import reason_page, reasons_page
from demur.service.dashboard.review import review_page
from demur.service.dashboard.triage import triage_page, triage_upload
from demur.service.headers import read_headers
from demur.service.problem import invalid_request
from demur.service.route import Handler, ApiRoute
from demur.service.service import Service

__all__ = ["PAGES", "page_routes"]

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
