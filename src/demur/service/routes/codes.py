"""The registry over HTTP: all reason codes, and one of them."""

from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, json_answer
from demur.service.problem import ProblemError

__all__ = ["CODE_ROUTES"]


async def list_codes(call: ApiCall) -> ApiAnswer:
    """List all codes in force."""
    registry = call.service.gate.registry
    return json_answer(
        {"registry": registry.label, "codes": [_entry_view(entry) for entry in registry]}
    )


async def get_code(call: ApiCall) -> ApiAnswer:
    """Return one code."""
    entry = call.service.gate.registry.get(call.path["code"])
    if entry is None:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such code")
    return json_answer(_entry_view(entry))


def _entry_view(entry: Any) -> dict[str, Any]:
    return {
        "code": str(entry.code),
        "title": entry.title,
        "description": entry.description,
        "effect": entry.effect,
        "refusal_class": entry.refusal_class,
        "severity": entry.severity,
        "advice": entry.advice,
        "retry_scope": entry.retry_scope,
        "decided": entry.decided,
        "parent": entry.parent,
        "surfaces": list(entry.surfaces),
        "stability": entry.stability,
        "replacement": entry.replacement,
    }


_CODE_SCHEMA = {"type": "object", "required": ["code", "title", "description"]}
CODE_ROUTES = (
    ApiRoute(
        "GET",
        "/v1/codes",
        "list codes",
        "List all reason codes in force",
        list_codes,
        Role.READ,
        gives={
            "type": "object",
            "required": ["registry", "codes"],
            "properties": {
                "registry": {"type": "string"},
                "codes": {"type": "array", "items": _CODE_SCHEMA},
            },
        },
    ),
    ApiRoute(
        "GET",
        "/v1/codes/{code:path}",
        "get code",
        "Return one reason code",
        get_code,
        Role.READ,
        gives=_CODE_SCHEMA,
        statuses=(404,),
    ),
)
