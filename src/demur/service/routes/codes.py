"""The registry over HTTP: all reason codes, and one of them."""

from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.problem import ProblemError
from demur.service.route import Route

__all__ = ["ROUTES"]


async def codes(call: Call) -> Answer:
    """List all codes in force."""
    registry = call.service.gate.registry
    return answer({"registry": registry.label, "codes": [_plain(entry) for entry in registry]})


async def code(call: Call) -> Answer:
    """Return one code."""
    entry = call.service.gate.registry.get(call.path["code"])
    if entry is None:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such code")
    return answer(_plain(entry))


def _plain(entry: Any) -> dict[str, Any]:
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


_CODE = {"type": "object", "required": ["code", "title", "description"]}
ROUTES = (
    Route(
        "GET",
        "/v1/codes",
        "list codes",
        "List all reason codes in force",
        codes,
        Role.READ,
        gives={
            "type": "object",
            "required": ["registry", "codes"],
            "properties": {
                "registry": {"type": "string"},
                "codes": {"type": "array", "items": _CODE},
            },
        },
    ),
    Route(
        "GET",
        "/v1/codes/{code:path}",
        "get code",
        "Return one reason code",
        code,
        Role.READ,
        gives=_CODE,
        statuses=(404,),
    ),
)
