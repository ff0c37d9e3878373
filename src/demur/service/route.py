"""A route: its path, role, input and output."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall

__all__ = ["Handler", "QueryParameter", "ApiRoute"]

Handler = Callable[[ApiCall], Awaitable[ApiAnswer]]


class QueryParameter(NamedTuple):
    """A query parameter."""

    name: str
    description: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class ApiRoute(NamedTuple):
    """One operation. `takes` and `gives` are the types, or schemas, of its input and output.

    `role` None means that no key is needed. `log` says that the body is a log, which may be
    larger than other bodies. `all_tenants` says that the route needs a key for all tenants.
    `success` is the status of an answer, `example` a valid body, and `path_schemas` are the
    schemas of the path's parameters.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    role: Role | None
    takes: Any = None
    gives: Any = None
    query: tuple[QueryParameter, ...] = ()
    statuses: tuple[int, ...] = ()
    media_type: str = "application/json"
    body_type: str = "application/json"
    log: bool = False
    all_tenants: bool = False
    success: int = 200
    example: Any = None
    path_schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
