"""The page of the API: every operation, with its parameters, its answers, and a form to try it."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from demur.service.calls import ApiAnswer, ApiCall, ApiRoute
from demur.service.dashboard.frame import render_page
from demur.service.routes import ROUTES, build_openapi

_ANY_PATH = re.compile(r"\{(\w+):path\}")
_REF_PREFIX = "#/components/schemas/"


class ApiField(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of an operation. `choices` are its only values, if there are such."""

    name: str
    place: str
    description: str
    required: bool
    kind: str
    choices: list[str]
    # Whether slashes of its value are part of the path.
    takes_slashes: bool = False


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as the page shows it. `role` is empty if no key is needed."""

    name: str
    method: str
    path: str
    summary: str
    role: str
    fields: list[ApiField]
    body_type: str
    body_schema: str
    example: str
    answer_type: str
    answer_schema: str
    statuses: list[tuple[str, str]]


class ApiTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of one topic."""

    name: str
    operations: list[ApiOperation]


class ApiSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A named type of bodies and answers, as JSON Schema."""

    name: str
    description: str
    definition: dict[str, Any]


class ApiDocument(msgspec.Struct, frozen=True, kw_only=True):
    """All operations by topic, and the types that they name."""

    topics: list[ApiTopic]
    schemas: list[ApiSchema]
    count: int


def describe_api(routes: Sequence[ApiRoute]) -> ApiDocument:
    """Return the operations of routes, in the words of their OpenAPI document."""
    document = build_openapi(routes)
    topics: dict[str, list[ApiOperation]] = {}
    for route in routes:
        path = re.sub(r":\w+\}", "}", route.path)
        operation = document["paths"][path][route.method.lower()]
        topics.setdefault(operation["tags"][0], []).append(_describe_route(route, path, operation))
    schemas = document["components"]["schemas"]
    return ApiDocument(
        topics=[ApiTopic(name=name, operations=found) for name, found in sorted(topics.items())],
        schemas=[
            ApiSchema(name=name, description=one.get("description", ""), definition=one)
            for name, one in sorted(schemas.items())
        ],
        count=len(routes),
    )


def _describe_route(route: ApiRoute, path: str, operation: dict[str, Any]) -> ApiOperation:
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    body_type = next(iter(content), "")
    body: dict[str, Any] = content.get(body_type, {})
    answers = operation["responses"][str(route.success)]["content"]
    answer_type, answer = next(iter(answers.items()))
    example = body.get("example")
    return ApiOperation(
        name=operation["operationId"],
        method=route.method,
        path=path,
        summary=operation["summary"],
        role=str(route.role or ""),
        fields=list(_describe_fields(route, operation)),
        body_type=body_type,
        body_schema=_schema_name(body),
        example="" if example is None else _format_example(example),
        answer_type=answer_type,
        answer_schema=_schema_name(answer),
        statuses=[(code, one["description"]) for code, one in operation["responses"].items()],
    )


def _describe_fields(route: ApiRoute, operation: dict[str, Any]) -> Iterator[ApiField]:
    open_names = set(_ANY_PATH.findall(route.path))
    for one in operation.get("parameters", ()):
        schema = one["schema"]
        yield ApiField(
            name=one["name"],
            place=one["in"],
            description=one.get("description", ""),
            required=one.get("required", False),
            kind=str(schema.get("type", "string")),
            choices=[str(value) for value in schema.get("enum", ())],
            takes_slashes=one["name"] in open_names,
        )


def _schema_name(content: dict[str, Any]) -> str:
    reference = content.get("schema", {}).get("$ref", "")
    return str(reference).removeprefix(_REF_PREFIX)


def _format_example(example: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(example), indent=2).decode()


@cache
def _describe_own_api() -> ApiDocument:
    return describe_api(ROUTES)


def api_page(call: ApiCall) -> ApiAnswer:
    """Return the page."""
    return render_page(call, "api.html", title="API", section="api", api=_describe_own_api())
