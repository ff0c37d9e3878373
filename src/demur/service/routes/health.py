"""Health and readiness over HTTP."""

import time

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.problem import ProblemError
from demur.service.route import ApiRoute
from demur.version import __version__

__all__ = ["HEALTH_ROUTES", "Health"]

# No key is needed, so the store is checked once a second at most.
_STORE_CHECK_S = 1.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service."""

    status: str
    version: str = __version__


async def report_health(call: ApiCall) -> ApiAnswer:  # noqa: ARG001 - a handler takes the call
    """Report that the process answers, even if the store is unavailable."""
    return json_answer(Health(status="up"))


async def report_readiness(call: ApiCall) -> ApiAnswer:
    """Report whether decisions can be made and stored now."""
    service = call.service
    if service.closing:
        raise ProblemError(503, ReasonCode.INTERNAL_ERROR, "the service is shutting down")
    now = time.monotonic()
    if service.gate.store is not None and now >= service.checked_at + _STORE_CHECK_S:
        try:
            await service.run_blocking(service.gate.store.info)
        except DemurError as error:
            if isinstance(error, ProblemError):
                raise
            raise ProblemError(
                503, ReasonCode.STORAGE_UNAVAILABLE, "the store is unavailable"
            ) from None
        service.checked_at = now
    return json_answer(Health(status="ready"))


HEALTH_ROUTES = (
    ApiRoute(
        "GET", "/health", "health", "Report that it answers", report_health, None, gives=Health
    ),
    ApiRoute(
        "GET",
        "/ready",
        "ready",
        "Report whether decisions can be made and stored",
        report_readiness,
        None,
        gives=Health,
        statuses=(503,),
    ),
)
