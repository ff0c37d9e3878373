"""Normalise provider responses over HTTP: any JSON in, one typed refusal or none out."""

from typing import Any

import msgspec

from demur.model.refusal import Refusal
from demur.providers.normalize import normalize
from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.route import ApiRoute

__all__ = ["NORMALIZE_ROUTES", "Normalized"]

_MAX_INLINE_BODY = 2 << 10


class Normalized(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal that a response carries, or null if it carries none."""

    refusal: Refusal | None


async def normalize_response(call: ApiCall) -> ApiAnswer:
    """Read the refusal out of a provider's response or error."""
    given = call.decode_body(object)
    registry = call.service.gate.registry
    if len(call.body) <= _MAX_INLINE_BODY:
        found = normalize(given, registry=registry)
    else:
        found = await call.service.run_blocking(normalize, given, registry=registry)
    return json_answer(Normalized(refusal=found))


_ANY_JSON: dict[str, Any] = {
    "description": "The provider's response, error or stream events, as JSON."
}
NORMALIZE_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/normalize",
        "normalize",
        "Read the refusal out of a provider's response or error",
        normalize_response,
        Role.DECIDE,
        takes=_ANY_JSON,
        gives=Normalized,
        example={
            "choices": [{"finish_reason": "content_filter", "message": {"content": None}}],
            "object": "chat.completion",
        },
    ),
)
