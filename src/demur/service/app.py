"""The application: every route of the API and of the dashboard, behind one door."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import starmap
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from demur.service.call import encode_json
from demur.service.endpoint import Endpoint
from demur.service.headers import SECURITY_HEADERS
from demur.service.problem import PROBLEM_MEDIA_TYPE, invalid_request, problem_details
from demur.service.route import ApiRoute
from demur.service.routes.api import ROUTES
from demur.service.service import Service

__all__ = ["build_app"]

_UNROUTED_PROBLEMS = {404: "no such route", 405: "the route does not support this method"}


def build_app(service: Service, pages: Iterable[StarletteRoute] = ()) -> Starlette:
    """Return the ASGI application of a service. `pages` are those of the dashboard."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.close()

    addresses = _build_method_tables(ROUTES, service)
    app = _DirectStarlette(
        dict(_list_direct_endpoints(addresses)),
        routes=[*starmap(StarletteRoute, addresses.items()), *pages],
        exception_handlers={HTTPException: _answer_unrouted},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


class _DirectStarlette(Starlette):
    """Dispatches fixed paths to their endpoints without a search through all routes."""

    def __init__(self, direct_endpoints: "Mapping[str, _DirectEndpoint]", **settings: Any) -> None:
        super().__init__(**settings)
        self._direct_endpoints = direct_endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        known = self._direct_endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if known is not None and scope["method"] == known.method:
            scope["path_params"] = known.path
            await known.endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _DirectEndpoint(NamedTuple):
    """A path without free parts, and its endpoint."""

    method: str
    endpoint: Endpoint
    path: Mapping[str, str]


class _MethodTable:
    """All methods of one path."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = endpoints
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a call by its method."""
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, headers={"allow": ", ".join(sorted(self._endpoints))})
        await endpoint(scope, receive, send)


def _build_method_tables(routes: Iterable[ApiRoute], service: Service) -> dict[str, _MethodTable]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = Endpoint(route, service)
    return {path: _MethodTable(endpoints) for path, endpoints in by_path.items()}


def _list_direct_endpoints(
    addresses: Mapping[str, _MethodTable],
) -> Iterator[tuple[str, _DirectEndpoint]]:
    """Yield every path that has no free part."""
    for path, address in addresses.items():
        method, endpoint = next(iter(address.endpoints.items()))
        if "{" not in path:
            yield path, _DirectEndpoint(method, endpoint, {})
        for name, schema in endpoint.route.path_schemas.items():
            for value in schema.get("enum", ()):
                yield (
                    path.replace(f"{{{name}}}", value),
                    _DirectEndpoint(method, endpoint, {name: value}),
                )


async def _answer_unrouted(_: Request, error: Exception) -> Response:
    """Answer a call that matches no route."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    problem = invalid_request(status, _UNROUTED_PROBLEMS.get(status, "invalid request"))
    headers = {name.decode(): value.decode() for name, value in SECURITY_HEADERS}
    return Response(
        encode_json(problem_details(problem)),
        status,
        {**headers, **(error.headers or {})},
        PROBLEM_MEDIA_TYPE,
    )
