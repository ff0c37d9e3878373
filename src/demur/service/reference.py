"""The reference page of the HTTP API, from the routes themselves."""

import json
from collections.abc import Iterator
from typing import Any

from demur.codes.export.markup import code, link, slug, table
from demur.model.record import DecisionRecord
from demur.service.access import Role
from demur.service.body import LOG_TYPES
from demur.service.openapi import MEANINGS, statuses_of
from demur.service.route import Route
from demur.service.routes.api import ROUTES

__all__ = ["generated_files", "reference"]

_INTRO = """\
<!-- Generated from the routes of the service; do not edit. -->

# HTTP API

`demur serve` answers these calls, see [run the service](../how-to/run-the-service.md);
`GET /openapi.json` says the same to programs. Bodies are JSON in UTF-8 unless a route says
otherwise. A parameter or a field that a route does not know is an error.

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
with the same `request_id`.

## Keys and roles

A call sends its key as `Authorization: Bearer demur_…`. A key belongs to one tenant, or to all
of them. A key of one tenant sees no decision of another: such a decision is a `404`. On a
loopback address demur admits calls without a key, with every role but `admin`, as long as no
key was ever created and the settings name no other host."""
_ROLES = {
    Role.DECIDE: "decide, run guards, normalise, detect, word refusals",
    Role.READ: "read decisions, statistics, codes and metrics",
    Role.LABEL: "label decisions and report outcomes",
    Role.ADMIN: "all of these, and create and revoke keys",
}


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the page."""
    yield "docs/reference/http.md", reference()


def reference() -> str:
    """Return the page: every route with its role, body, answer and errors."""
    roles = ((code(role), meaning) for role, meaning in _ROLES.items())
    routes = ((link(_title(one), f"#{slug(_title(one))}"), one.summary) for one in ROUTES)
    refused = ((str(status), meaning) for status, meaning in MEANINGS.items())
    parts = (
        _INTRO,
        table(("Role", "Meaning"), roles),
        "## Statuses",
        table(("Status", "Meaning"), refused),
        "## Routes",
        table(("Route", "Summary"), routes),
        *map(_route, ROUTES),
    )
    return "\n\n".join(parts) + "\n"


def _title(route: Route) -> str:
    return f"{route.method} {route.path.replace(':path', '')}"


def _route(route: Route) -> str:
    parts = [f"## {_title(route)}", f"{route.summary}. {_who(route)}"]
    if route.query:
        rows = ((code(one.name), _meaning(one.description, one.schema)) for one in route.query)
        parts.append(table(("Parameter", "Meaning"), rows))
    if route.takes is not None:
        parts.append(_takes(route))
    if route.example is not None:
        parts.append(_json(route.example))
    parts.append(_ends(route))
    return "\n\n".join(parts)


def _who(route: Route) -> str:
    if route.role is None:
        return "No key needed."
    more = ", of all tenants" if route.all_tenants else ""
    return f"Role {code(route.role)}{more}."


def _meaning(description: str, schema: Any) -> str:
    choices = schema.get("enum")
    return f"{description} One of {', '.join(map(code, choices))}." if choices else description


def _takes(route: Route) -> str:
    if route.log:
        return f"{route.takes['description']} Its type is {', '.join(map(code, LOG_TYPES))}."
    if not isinstance(route.takes, type):
        return f"Takes {code(route.body_type)}: {route.takes['description']}"
    return f"Takes {_fields(route.takes)}. {_words(route.takes)}"


def _fields(kind: Any) -> str:
    return ", ".join(map(code, kind.__struct_fields__))


def _words(kind: type[Any]) -> str:
    """Return the docstring of a type on one line."""
    return " ".join((kind.__doc__ or "").split())


def _ends(route: Route) -> str:
    gives = "a record" if route.gives is DecisionRecord else None
    if gives is None and isinstance(route.gives, type):
        gives = f"{_fields(route.gives)}. {_words(route.gives)}".rstrip(".")
    gives = gives or code(route.media_type)
    refused = ", ".join(map(str, statuses_of(route)))
    return f"{route.success} gives {gives}. Errors: {refused}."


def _json(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"
