"""All pages of the dashboard, as routes that the application takes beside those of the API."""

from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from demur.service.access import Role
from demur.service.call import Answer, Call
from demur.service.dashboard.assets import asset
from demur.service.dashboard.codes import codes
from demur.service.dashboard.decision import decision, replayed
from demur.service.dashboard.decisions import decisions
from demur.service.dashboard.endpoint import PageEndpoint, wants_html
from demur.service.dashboard.evals import eval_run, evals
from demur.service.dashboard.frame import on_thread
from demur.service.dashboard.labelling import label
from demur.service.dashboard.login import login, login_page, logout, switch_tenant
from demur.service.dashboard.overview import overview
from demur.service.dashboard.reasons import reason, reasons
from demur.service.dashboard.review import review
from demur.service.dashboard.triage import triage_page, triaged
from demur.service.headers import read_headers
from demur.service.problem import invalid
from demur.service.route import Handler, Route
from demur.service.service import Service

__all__ = ["PAGES", "pages"]

_ONE = "/decisions/{decision_id}"


def _get(path: str, name: str, handler: Handler, role: Role | None = Role.READ) -> Route:
    return Route("GET", path, name, f"Show {name}", handler, role)


def _post(path: str, name: str, handler: Handler, role: Role | None) -> Route:
    return Route("POST", path, name, name.capitalize(), handler, role)


PAGES: tuple[Route, ...] = (
    _get("/", "the overview", on_thread(overview)),
    _get("/decisions", "decisions", on_thread(decisions)),
    _get(_ONE, "one decision", on_thread(decision)),
    _post(f"{_ONE}/replay", "replay a decision", on_thread(replayed), Role.READ),
    _post(f"{_ONE}/label", "label a decision", on_thread(label), Role.LABEL),
    _get("/reasons", "reasons", on_thread(reasons)),
    _get("/reasons/{code:path}", "one reason", on_thread(reason)),
    _get("/review", "the review queue", on_thread(review)),
    _get("/evals", "evals", on_thread(evals))._replace(all_tenants=True),
    _get("/evals/{name:path}", "one eval", on_thread(eval_run))._replace(all_tenants=True),
    _get("/codes", "codes", on_thread(codes)),
    _get("/triage", "triage", on_thread(triage_page)),
    _post("/triage", "count a log", triaged, Role.READ)._replace(log=True),
    _get("/login", "the login", login_page, None),
    _post("/login", "log in", login, None),
    _post("/logout", "log out", logout, None),
    _post("/tenant", "look at another tenant", switch_tenant, Role.READ),
    _get("/static/{name}", "a static file", asset, None),
)


def pages(service: Service) -> list[StarletteRoute]:
    """Return the routes of all pages of a service."""
    placed = [
        StarletteRoute(route.path, PageEndpoint(route, service), methods=[route.method])
        for route in PAGES
    ]
    return [
        *placed,
        _Nowhere("/{path:path}", PageEndpoint(_get("/", "nothing", _lost, None), service)),
    ]


async def _lost(_: Call) -> Answer:
    raise invalid(404, "no such page", help="the menu leads to every page")


class _Nowhere(StarletteRoute):
    """Matches unknown paths for browsers, which get a page; programs get problem details."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if a browser asks for an unknown path."""
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            path: str = scope["path"]
            if not path.startswith("/v1/") and wants_html(read_headers(scope["headers"])):
                return super().matches(scope)
        return Match.NONE, {}
