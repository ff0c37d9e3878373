"""All routes of the HTTP API, and the OpenAPI document that is built from them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from demur.emit.envelope import PROBLEM_MEDIA_TYPE
from demur.model.record import DecisionRecord
from demur.model.schema import record_schema
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, RouteTable
from demur.service.json_body import encode_json
from demur.service.routes.approvals import APPROVAL_ROUTES
from demur.service.routes.checks import CHECK_ROUTES
from demur.service.routes.codes import CODE_ROUTES
from demur.service.routes.decide import DECIDE_ROUTES
from demur.service.routes.decisions import DECISION_ROUTES
from demur.service.routes.enforce import ENFORCE_ROUTES
from demur.service.routes.erasures import ERASURE_ROUTES
from demur.service.routes.grants import GRANT_ROUTES
from demur.service.routes.guards import GUARD_ROUTES
from demur.service.routes.keys import KEY_ROUTES
from demur.service.routes.labels import LABEL_ROUTES
from demur.service.routes.monitoring import MONITORING_ROUTES
from demur.service.routes.people import PEOPLE_ROUTES
from demur.service.routes.reports import REPORT_ROUTES
from demur.version import __version__

__all__ = ["ROUTES", "STATUS_MEANINGS", "build_openapi", "error_statuses"]

_SCHEMA_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
# Statuses of refusals that happen before a handler runs.
_COMMON_STATUSES = (400, 421, 500, 503)
_KEY_STATUSES = (401, 403, 429)
_BODY_STATUSES = (408, 413)
_INPUT_STATUSES = (415, 422)
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
    429: "the key exceeds its rate or a budget; `Retry-After` says when to retry",
    431: "the head of the call is too large",
    500: "internal error in demur",
    501: "an optional package is not installed",
    503: "the store is unavailable, or the service is overloaded or shutting down",
}


def build_openapi(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """Return the document that describes these routes."""
    kinds = [
        kind
        for route in routes
        for kind in (route.takes, route.gives, *route.lines)
        if isinstance(kind, type) and kind is not DecisionRecord
    ]
    schemas = _component_schemas(dict.fromkeys(kinds))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
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
    operation: dict[str, Any] = {
        "operationId": route.name.replace(" ", "_"),
        "summary": route.summary,
        "tags": [
            route.path.split("/")[2 if route.path.startswith("/v1/") else 1].partition("{")[0]
        ],
        "security": [] if route.role is None else [{"key": [str(route.role)]}],
        "responses": dict(_describe_responses(route)),
    }
    if parameters := list(_describe_parameters(route)):
        operation["parameters"] = parameters
    if route.takes is not None:
        example = {} if route.example is None else {"example": route.example}
        content = {"schema": _schema_for(route.takes), **example}
        operation["requestBody"] = {
            "required": True,
            "content": dict.fromkeys(route.body_types, content),
        }
    return operation


def _describe_parameters(route: ApiRoute) -> Iterator[dict[str, Any]]:
    for name in _PATH_PARAMETER.findall(route.path):
        schema = {"type": "string", "minLength": 1, **route.path_schemas.get(name, {})}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for query in route.query:
        yield {
            "name": query.name,
            "in": "query",
            "description": query.description,
            "schema": dict(query.schema),
        }


def _describe_responses(route: ApiRoute) -> Iterator[tuple[str, dict[str, Any]]]:
    binary = {"type": "string", "format": "binary"}
    schema = binary if route.gives is None else _schema_for(route.gives)
    content = {route.media_type: {"schema": schema}}
    yield str(route.success), {"description": route.summary, "content": content}
    problem = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _SCHEMA_REF.format(name="Problem")}}}
    for status in error_statuses(route):
        yield str(status), {"description": STATUS_MEANINGS[status], "content": problem}


def error_statuses(route: ApiRoute) -> list[int]:
    """Return the statuses of the errors that a call may get."""
    keyed = _KEY_STATUSES if route.role else ()
    sent = _BODY_STATUSES if route.method not in {"GET", "HEAD"} else ()
    typed = _INPUT_STATUSES if route.takes is not None or route.query or "{" in route.path else ()
    return sorted({*_COMMON_STATUSES, *keyed, *sent, *typed, *route.statuses})


def _schema_for(kind: Any) -> Mapping[str, Any]:
    return (
        {"$ref": _SCHEMA_REF.format(name=kind.__name__)} if isinstance(kind, type) else dict(kind)
    )


def _component_schemas(kinds: Iterable[type[Any]]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(list(kinds), ref_template=_SCHEMA_REF)
    record = record_schema()
    record.pop("$schema")
    parts = record.pop("$defs")
    raw = msgspec.json.encode({**parts, **components, DecisionRecord.__name__: record})
    # Round-trip through JSON, because defaults come as tuples.
    schemas = msgspec.json.decode(raw.replace(b"#/$defs/", b"#/components/schemas/"))
    return {"Problem": _PROBLEM_SCHEMA, **schemas}


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


_DOCUMENT = RouteTable()
_document_cache: list[bytes] = []


@_DOCUMENT.add("GET /openapi.json", "openapi", None, gives={"type": "object"})
async def serve_openapi(call: ApiCall) -> ApiAnswer:
    """Return this OpenAPI document."""
    if not _document_cache:
        document = await call.service.run_blocking(build_openapi, ROUTES)
        _document_cache.append(encode_json(document))
    return ApiAnswer(_document_cache[0])


ROUTES: tuple[ApiRoute, ...] = (
    *DECIDE_ROUTES,
    *ENFORCE_ROUTES,
    *CHECK_ROUTES,
    *DECISION_ROUTES,
    *APPROVAL_ROUTES,
    *LABEL_ROUTES,
    *MONITORING_ROUTES,
    *GUARD_ROUTES,
    *CODE_ROUTES,
    *GRANT_ROUTES,
    *ERASURE_ROUTES,
    *REPORT_ROUTES,
    *KEY_ROUTES,
    *PEOPLE_ROUTES,
    *_DOCUMENT,
)
