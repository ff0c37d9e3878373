"""The OpenAPI document over HTTP, without a key."""

from collections.abc import Sequence

from demur.service.call import ApiAnswer, ApiCall, encode_json
from demur.service.openapi import build_openapi
from demur.service.route import ApiRoute

__all__ = ["openapi_route"]


def openapi_route(others: Sequence[ApiRoute]) -> ApiRoute:
    """Return the route of the OpenAPI document, which describes all routes and itself."""
    written: list[bytes] = []

    async def document(call: ApiCall) -> ApiAnswer:
        if not written:
            written.append(await call.service.run_blocking(_encode_openapi, (*others, route)))
        return ApiAnswer(written[0])

    route = ApiRoute(
        "GET",
        "/openapi.json",
        "openapi",
        "Return this OpenAPI document",
        document,
        None,
        gives={"type": "object"},
    )
    return route


def _encode_openapi(routes: Sequence[ApiRoute]) -> bytes:
    return encode_json(build_openapi(routes))
