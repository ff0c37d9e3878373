"""All routes of the API, and the OpenAPI document that is built from them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from demur.emit.envelope import PROBLEM_MEDIA_TYPE
from demur.model.record import DecisionRecord
from demur.model.schema import record_schema
from demur.service.calls import LOG_TYPES, ApiAnswer, ApiCall, ApiRoute, QueryParameter, encode_json
from demur.service.routes.checks import DETECT_ROUTES as DETECT
from demur.service.routes.checks import GUARD_ROUTES as GUARD
from demur.service.routes.checks import NORMALIZE_ROUTES as NORMALIZE
from demur.service.routes.codes import CODE_ROUTES as CODES
from demur.service.routes.decide import DECIDE_ROUTES as DECIDE
from demur.service.routes.decide import RESPOND_ROUTES as RESPOND
from demur.service.routes.decisions import DECISION_ROUTES as DECISIONS
from demur.service.routes.keys import KEY_ROUTES as KEYS
from demur.service.routes.labels import LABEL_ROUTES as LABELS
from demur.service.routes.monitoring import HEALTH_ROUTES as HEALTH
from demur.service.routes.monitoring import METRICS_ROUTES as METRICS
from demur.service.routes.monitoring import STATS_ROUTES as STATS
from demur.service.routes.monitoring import TRIAGE_ROUTES as TRIAGE
from demur.version import __version__

_SCHEMA_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
# Statuses of refusals that happen before a handler runs.
_COMMON_STATUSES = (400, 421, 500, 503)
_KEY_STATUSES = (401, 403, 429)
_BODY_STATUSES = (408, 413)
_INPUT_STATUSES = (415, 422)
_RECORD_SCHEMA = "DecisionRecord"
# Own texts: those of the standard library change with the version of Python.
STATUS_MEANINGS: Mapping[int, str] = {
    400: "the call is not valid HTTP or JSON",
    401: "an API key is required, or this one is unknown, expired or revoked",
    403: "the key lacks the role or belongs to another tenant, or the call is cross-site",
    404: "there is no such object, or it belongs to another tenant",
    405: "the route does not support this method",
    408: "the body was not received in time",
    409: "the `request_id` was used for another request",
    413: "the body is too large",
    415: "the body has an unsupported media type",
    421: "the service does not answer to that host name",
    422: "the call is invalid; `where` names the part at fault",
    429: "the key exceeds its rate; `Retry-After` says when to retry",
    431: "the head of the call is too large",
    500: "internal error in demur",
    501: "an optional package is not installed",
    503: "the store is unavailable, or the service is overloaded or shutting down",
}


def build_openapi(routes: Iterable[ApiRoute]) -> dict[str, Any]:
    """Return the document that describes these routes."""
    listed = list(routes)
    kinds = [kind for route in listed for kind in (route.takes, route.gives) if _is_type(kind)]
    schemas = _component_schemas(dict.fromkeys(kinds))
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        path = _PATH_PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _describe_operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "demur",
            "version": __version__,
            "description": "The refusal contract for AI agents. A refusal is a 200.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_operation(route: ApiRoute) -> dict[str, Any]:
    parameters = [*_path_parameters(route), *map(_query_parameter, route.query)]
    body = {} if route.takes is None else {"requestBody": _describe_body(route)}
    return {
        "operationId": route.name.replace(" ", "_"),
        "summary": route.summary,
        "tags": [
            route.path.split("/")[2 if route.path.startswith("/v1/") else 1].partition("{")[0]
        ],
        **({"parameters": parameters} if parameters else {}),
        **body,
        "security": [] if route.role is None else [{"key": [str(route.role)]}],
        "responses": dict(_describe_responses(route)),
    }


def _describe_body(route: ApiRoute) -> dict[str, Any]:
    example = {} if route.example is None else {"example": route.example}
    types = LOG_TYPES if route.log else (route.body_type,)
    content = {"schema": _schema_for(route.takes), **example}
    return {"required": True, "content": dict.fromkeys(types, content)}


def _path_parameters(route: ApiRoute) -> Iterator[dict[str, Any]]:
    for name in _PATH_PARAMETER.findall(route.path):
        known = route.path_schemas.get(name, {})
        schema = {"type": "string", "minLength": 1, **known}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(query: QueryParameter) -> dict[str, Any]:
    return {
        "name": query.name,
        "in": "query",
        "description": query.description,
        "schema": dict(query.schema),
    }


def _describe_responses(route: ApiRoute) -> Iterator[tuple[str, dict[str, Any]]]:
    given = (
        {"type": "string", "format": "binary"} if route.gives is None else _schema_for(route.gives)
    )
    yield (
        str(route.success),
        {
            "description": route.summary,
            "content": {route.media_type: {"schema": given}},
        },
    )
    problem = {
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _SCHEMA_REF.format(name="Problem")}}}
    }
    for status in error_statuses(route):
        yield str(status), {"description": STATUS_MEANINGS[status], **problem}


def error_statuses(route: ApiRoute) -> list[int]:
    """Return the statuses of the errors that a call may get."""
    keyed = _KEY_STATUSES if route.role else ()
    sent = _BODY_STATUSES if route.method not in {"GET", "HEAD"} else ()
    typed = _INPUT_STATUSES if route.takes is not None or route.query or "{" in route.path else ()
    return sorted({*_COMMON_STATUSES, *keyed, *sent, *typed, *route.statuses})


def _is_type(kind: Any) -> bool:
    return isinstance(kind, type) and kind is not DecisionRecord


def _schema_for(kind: Any) -> Mapping[str, Any]:
    if kind is DecisionRecord:
        return {"$ref": _SCHEMA_REF.format(name=_RECORD_SCHEMA)}
    return (
        {"$ref": _SCHEMA_REF.format(name=kind.__name__)} if isinstance(kind, type) else dict(kind)
    )


def _component_schemas(kinds: Iterable[type[Any]]) -> dict[str, Any]:
    _, made = msgspec.json.schema_components(list(kinds), ref_template=_SCHEMA_REF)
    record = record_schema()
    record.pop("$schema")
    parts = record.pop("$defs")
    raw = msgspec.json.encode({**parts, **made, _RECORD_SCHEMA: record}).replace(
        b"#/$defs/", b"#/components/schemas/"
    )
    # Round-trip through JSON, because defaults come as tuples.
    return {"Problem": _PROBLEM_SCHEMA, **msgspec.json.decode(raw)}


_PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "RFC 9457 problem details, with the reason code and how to go on.",
    "type": "object",
    "required": ["type", "title", "status", "code", "advice"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "advice": {"type": ["string", "null"]},
        "where": {"type": "string", "description": "The part of the request at fault."},
        "help": {"type": "string"},
    },
}


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


_DESCRIBED_ROUTES: tuple[ApiRoute, ...] = (
    *DECIDE,
    *GUARD,
    *NORMALIZE,
    *DETECT,
    *RESPOND,
    *DECISIONS,
    *LABELS,
    *STATS,
    *TRIAGE,
    *CODES,
    *KEYS,
    *METRICS,
    *HEALTH,
)
ROUTES: tuple[ApiRoute, ...] = (*_DESCRIBED_ROUTES, openapi_route(_DESCRIBED_ROUTES))
