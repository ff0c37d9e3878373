"""Refusals in plain prose over HTTP: does this answer refuse, how, and in which language?"""

import msgspec

from demur.detect.detector import detect_refusal
from demur.detect.signal import RefusalSignal
from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.route import Route

__all__ = ["ROUTES", "Detect"]


class Detect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer of a model, and the prompt if it is known."""

    response: str
    prompt: str | None = None


async def detect(call: Call) -> Answer:
    """Detect whether an answer refuses."""
    asked = call.read(Detect)
    return answer(await call.service.work(detect_refusal, asked.response, asked.prompt))


ROUTES = (
    Route(
        "POST",
        "/v1/detect",
        "detect",
        "Detect whether an answer in plain prose refuses",
        detect,
        Role.DECIDE,
        takes=Detect,
        gives=RefusalSignal,
        example={"response": "I'm sorry, but I can't help with that."},
    ),
)
