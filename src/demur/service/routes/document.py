"""The OpenAPI document over HTTP, without a key."""

from collections.abc import Sequence

from demur.service.call import Answer, Call, json_bytes
from demur.service.openapi import openapi
from demur.service.route import Route

__all__ = ["describing"]


def describing(others: Sequence[Route]) -> Route:
    """Return the route of the OpenAPI document, which describes all routes and itself."""
    written: list[bytes] = []

    async def document(call: Call) -> Answer:
        if not written:
            written.append(await call.service.work(_document, (*others, route)))
        return Answer(written[0])

    route = Route(
        "GET",
        "/openapi.json",
        "openapi",
        "Return this OpenAPI document",
        document,
        None,
        gives={"type": "object"},
    )
    return route


def _document(routes: Sequence[Route]) -> bytes:
    return json_bytes(openapi(routes))
