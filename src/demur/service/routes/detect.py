"""Refusals in plain prose over HTTP: does this answer refuse, how, and in which language?"""

import msgspec

from demur.detect.detector import detect_refusal
from demur.detect.signal import RefusalSignal
from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.route import ApiRoute

__all__ = ["DETECT_ROUTES", "Detect"]


class Detect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer of a model, and the prompt if it is known."""

    response: str
    prompt: str | None = None


async def detect_prose(call: ApiCall) -> ApiAnswer:
    """Detect whether an answer refuses."""
    asked = call.decode_body(Detect)
    return json_answer(
        await call.service.run_blocking(detect_refusal, asked.response, asked.prompt)
    )


DETECT_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/detect",
        "detect",
        "Detect whether an answer in plain prose refuses",
        detect_prose,
        Role.DECIDE,
        takes=Detect,
        gives=RefusalSignal,
        example={"response": "I'm sorry, but I can't help with that."},
    ),
)
