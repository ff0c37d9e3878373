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

from demur.service.call import json_bytes
from demur.service.endpoint import Endpoint
from demur.service.headers import SECURITY
from demur.service.problem import MEDIA_TYPE, invalid, problem_of
from demur.service.route import Route
from demur.service.routes.api import ROUTES
from demur.service.service import Service

__all__ = ["build_app"]

_WHY = {404: "no such route", 405: "the route does not support this method"}


def build_app(service: Service, pages: Iterable[StarletteRoute] = ()) -> Starlette:
    """Return the ASGI application of a service. `pages` are those of the dashboard."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.close()

    addresses = _addresses(ROUTES, service)
    app = _App(
        dict(_direct(addresses)),
        routes=[*starmap(StarletteRoute, addresses.items()), *pages],
        exception_handlers={HTTPException: _nowhere},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


class _App(Starlette):
    """Dispatches fixed paths to their endpoints without a search through all routes."""

    def __init__(self, direct: "Mapping[str, _Direct]", **settings: Any) -> None:
        super().__init__(**settings)
        self._direct = direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        known = self._direct.get(scope["path"]) if scope["type"] == "http" else None
        if known is not None and scope["method"] == known.method:
            scope["path_params"] = known.path
            await known.endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _Direct(NamedTuple):
    """A path without free parts, and its endpoint."""

    method: str
    endpoint: Endpoint
    path: Mapping[str, str]


class _Address:
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


def _addresses(routes: Iterable[Route], service: Service) -> dict[str, _Address]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = Endpoint(route, service)
    return {path: _Address(endpoints) for path, endpoints in by_path.items()}


def _direct(addresses: Mapping[str, _Address]) -> Iterator[tuple[str, _Direct]]:
    """Yield every path that has no free part."""
    for path, address in addresses.items():
        method, endpoint = next(iter(address.endpoints.items()))
        if "{" not in path:
            yield path, _Direct(method, endpoint, {})
        for name, schema in endpoint.route.path_schemas.items():
            for value in schema.get("enum", ()):
                yield path.replace(f"{{{name}}}", value), _Direct(method, endpoint, {name: value})


async def _nowhere(_: Request, error: Exception) -> Response:
    """Answer a call that matches no route."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    problem = invalid(status, _WHY.get(status, "invalid request"))
    headers = {name.decode(): value.decode() for name, value in SECURITY}
    return Response(
        json_bytes(problem_of(problem)), status, {**headers, **(error.headers or {})}, MEDIA_TYPE
    )
