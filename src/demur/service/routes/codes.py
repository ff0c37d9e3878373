"""The registry over HTTP: all reason codes, and one of them."""

from typing import Any

from demur.codes.entry import Entry
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall, RouteTable, json_answer
from demur.service.problem import invalid_call

_CODE = {"type": "object", "required": ["code", "title", "description"]}
_FIELDS = (
    "code",
    "title",
    "description",
    "effect",
    "refusal_class",
    "severity",
    "advice",
    "retry_scope",
    "decided",
    "parent",
    "surfaces",
    "stability",
    "replacement",
)
CODE_ROUTES = RouteTable()


@CODE_ROUTES.add(
    "GET /v1/codes",
    "list codes",
    Role.READ,
    gives={
        "type": "object",
        "required": ["registry", "codes"],
        "properties": {
            "registry": {"type": "string"},
            "codes": {"type": "array", "items": _CODE},
        },
    },
)
async def list_codes(call: ApiCall) -> ApiAnswer:
    """List all reason codes in force."""
    registry = call.service.gate.registry
    codes = [_entry_view(entry) for entry in registry]
    return json_answer({"registry": registry.label, "codes": codes})


@CODE_ROUTES.add("GET /v1/codes/{code:path}", "get code", Role.READ, gives=_CODE, statuses=(404,))
async def get_code(call: ApiCall) -> ApiAnswer:
    """Return one reason code."""
    entry = call.service.gate.registry.get(call.path["code"])
    if entry is None:
        raise invalid_call(404, "there is no such code")
    return json_answer(_entry_view(entry))


def _entry_view(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _FIELDS}
