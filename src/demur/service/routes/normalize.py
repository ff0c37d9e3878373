"""Normalise provider responses over HTTP: any JSON in, one typed refusal or none out."""

from typing import Any

import msgspec

from demur.model.refusal import Refusal
from demur.providers.normalize import normalize
from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.route import Route

__all__ = ["ROUTES", "Normalized"]

_SHORT = 2 << 10


class Normalized(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal that a response carries, or null if it carries none."""

    refusal: Refusal | None


async def normalized(call: Call) -> Answer:
    """Read the refusal out of a provider's response or error."""
    given = call.read(object)
    registry = call.service.gate.registry
    if len(call.body) <= _SHORT:
        found = normalize(given, registry=registry)
    else:
        found = await call.service.work(normalize, given, registry=registry)
    return answer(Normalized(refusal=found))


_ANY: dict[str, Any] = {"description": "The provider's response, error or stream events, as JSON."}
ROUTES = (
    Route(
        "POST",
        "/v1/normalize",
        "normalize",
        "Read the refusal out of a provider's response or error",
        normalized,
        Role.DECIDE,
        takes=_ANY,
        gives=Normalized,
        example={
            "choices": [{"finish_reason": "content_filter", "message": {"content": None}}],
            "object": "chat.completion",
        },
    ),
)
