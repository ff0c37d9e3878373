"""The reference page of the HTTP API, from the routes themselves."""

import json
from collections.abc import Iterator
from typing import Any

from demur.codes.markup import heading_slug, markdown_code, markdown_link, markdown_table
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES, STATUS_MEANINGS, error_statuses

_INTRO = """\
<!-- Generated from the routes of the service; do not edit. -->

# HTTP API

`demur serve` answers these calls, see [run the service](../how-to/run-the-service.md);
`GET /openapi.json` says the same to programs. Bodies are JSON in UTF-8 unless a route says
otherwise. A parameter or a field that a route does not know is an error, and so is a key that
an object has twice.

A refusal is a `200`: the service did its work, and the record says what it decided. Any other
status is a problem (RFC 9457, `application/problem+json`) with a reason `code`, its `advice`,
and, where they help, `where` and `help`:

```json
{
  "type": "urn:demur:code:REQUEST_INVALID",
  "title": "Unusable request",
  "status": 422,
  "code": "REQUEST_INVALID",
  "detail": "expected `object`, got `int`",
  "advice": "change_request",
  "where": "request"
}
```

A decision that could not be stored was not made: that is a `503`, and the call can be repeated
with the same `request_id`. Errors after the first event of a stream are its last event, `problem`.

## Keys and roles

A call sends its key as `Authorization: Bearer demur_…`. A key belongs to one tenant, or to all
of them. A key of one tenant sees no decision of another: such a decision is a `404`. On a
loopback address demur admits calls without a key, with every role but `admin`, as long as no
key was ever created and the settings name no other host."""
_ROLE_MEANINGS = {
    Role.DECIDE: "decide, enforce, run guards, normalise, detect, word refusals",
    Role.READ: "read decisions, statistics, codes and metrics",
    Role.LABEL: "label decisions and report outcomes",
    Role.ADMIN: "all of these, and create and revoke keys",
}


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the page."""
    yield "docs/reference/http.md", render_reference()


def render_reference() -> str:
    """Return the page: every route with its role, body, answer and errors."""
    roles = ((markdown_code(role), meaning) for role, meaning in _ROLE_MEANINGS.items())
    routes = (
        (markdown_link(_route_title(one), f"#{heading_slug(_route_title(one))}"), one.summary)
        for one in ROUTES
    )
    refused = ((str(status), meaning) for status, meaning in STATUS_MEANINGS.items())
    parts = (
        _INTRO,
        markdown_table(("Role", "Meaning"), roles),
        "## Statuses",
        markdown_table(("Status", "Meaning"), refused),
        "## Routes",
        markdown_table(("Route", "Summary"), routes),
        *map(_render_route, ROUTES),
    )
    return "\n\n".join(parts) + "\n"


def _route_title(route: ApiRoute) -> str:
    return f"{route.method} {route.path.replace(':path', '')}"


def _render_route(route: ApiRoute) -> str:
    more = ", of all tenants" if route.all_tenants else ""
    role = "No key needed" if route.role is None else f"Role {markdown_code(route.role)}{more}"
    parts = [f"## {_route_title(route)}", f"{route.summary}. {role}."]
    if route.query:
        rows = (
            (markdown_code(one.name), _parameter_meaning(one.description, one.schema))
            for one in route.query
        )
        parts.append(markdown_table(("Parameter", "Meaning"), rows))
    if route.takes is not None:
        parts.append(_describe_body(route))
    if route.example is not None:
        is_text = isinstance(route.example, str)
        example = route.example.rstrip() if is_text else json.dumps(route.example, indent=2)
        parts.append(f"```json\n{example}\n```")
    gives = markdown_code(route.media_type)
    if isinstance(route.gives, type):
        gives = "a record" if route.gives is DecisionRecord else _describe_type(route.gives)
    errors = ", ".join(map(str, error_statuses(route)))
    parts.append(f"{route.success} gives {gives.rstrip('.')}. Errors: {errors}.")
    return "\n\n".join(parts)


def _parameter_meaning(description: str, schema: Any) -> str:
    choices = ", ".join(map(markdown_code, schema.get("enum", ())))
    return f"{description} One of {choices}." if choices else description


def _describe_body(route: ApiRoute) -> str:
    if isinstance(route.takes, type):
        return f"Takes {_describe_type(route.takes)}"
    types = ", ".join(map(markdown_code, route.body_types))
    description = route.takes["description"]
    lines = [f"- {markdown_code(one.__name__)}: {_describe_type(one)}" for one in route.lines]
    if lines:
        return "\n".join([f"Takes {types}: {description}", "", *lines])
    return f"{description} Its type is {types}." if route.log else f"Takes {types}: {description}"


def _describe_type(kind: Any) -> str:
    """Return the fields of a type, and its docstring on one line."""
    fields = ", ".join(map(markdown_code, kind.__struct_fields__))
    return f"{fields}. {' '.join((kind.__doc__ or '').split())}"
