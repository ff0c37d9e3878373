"""A route: its address, who may call it, what it takes and gives. The list is the API."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from demur.service.access import Role
from demur.service.call import Answer, Call

__all__ = ["Handler", "Query", "Route"]

Handler = Callable[[Call], Awaitable[Answer]]


class Query(NamedTuple):
    """A parameter of the query."""

    name: str
    description: str
    schema: Mapping[str, Any] = MappingProxyType({"type": "string"})


class Route(NamedTuple):
    """One operation. `takes` and `gives` are types, or schemas, of what goes in and out.

    `role` None means that everybody may call it. `log` says that the body is a log, which may
    be larger than other bodies. `all_tenants` says that a key of one tenant will not do.
    `success` is the status of an answer, `example` a body that can be sent, `path_schemas` what
    is known of the parts of the path.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    role: Role | None
    takes: Any = None
    gives: Any = None
    query: tuple[Query, ...] = ()
    statuses: tuple[int, ...] = ()
    media_type: str = "application/json"
    body_type: str = "application/json"
    log: bool = False
    all_tenants: bool = False
    success: int = 200
    example: Any = None
    path_schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
