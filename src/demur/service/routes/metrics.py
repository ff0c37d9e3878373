"""Metrics over HTTP in Prometheus format. They count all tenants together."""

from demur.codes.reason_code import ReasonCode
from demur.service.access import Role
from demur.service.call import Answer, Call
from demur.service.problem import ProblemError
from demur.service.route import Route

__all__ = ["ROUTES"]


async def metrics(call: Call) -> Answer:
    """Return all metrics."""
    kept = call.service.metrics
    if kept is None:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "this service keeps no metrics")
    return Answer(await call.service.work(kept.exposition), media_type=kept.content_type)


ROUTES = (
    Route(
        "GET",
        "/metrics",
        "metrics",
        "Return metrics in Prometheus format",
        metrics,
        Role.READ,
        statuses=(404,),
        media_type="text/plain",
        all_tenants=True,
    ),
)
