"""Health and readiness over HTTP."""

import time

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError
from demur.service.call import Answer, Call, answer
from demur.service.problem import ProblemError
from demur.service.route import Route
from demur.version import __version__

__all__ = ["ROUTES", "Health"]

# No key is needed, so the store is checked once a second at most.
_GOOD_FOR_S = 1.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service."""

    status: str
    version: str = __version__


async def health(call: Call) -> Answer:  # noqa: ARG001 - a handler takes the call
    """Report that the process answers, even if the store is unavailable."""
    return answer(Health(status="up"))


async def ready(call: Call) -> Answer:
    """Report whether decisions can be made and stored now."""
    service = call.service
    if service.closing:
        raise ProblemError(503, ReasonCode.INTERNAL_ERROR, "the service is shutting down")
    now = time.monotonic()
    if service.gate.store is not None and now >= service.checked_at + _GOOD_FOR_S:
        try:
            await service.work(service.gate.store.info)
        except DemurError as error:
            if isinstance(error, ProblemError):
                raise
            raise ProblemError(
                503, ReasonCode.STORAGE_UNAVAILABLE, "the store is unavailable"
            ) from None
        service.checked_at = now
    return answer(Health(status="ready"))


ROUTES = (
    Route("GET", "/health", "health", "Report that it answers", health, None, gives=Health),
    Route(
        "GET",
        "/ready",
        "ready",
        "Report whether decisions can be made and stored",
        ready,
        None,
        gives=Health,
        statuses=(503,),
    ),
)
