"""Metrics over HTTP in Prometheus format. They count all tenants together."""

from demur.codes.reason_code import ReasonCode
from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall
from demur.service.problem import ProblemError
from demur.service.route import ApiRoute

__all__ = ["METRICS_ROUTES"]


async def expose_metrics(call: ApiCall) -> ApiAnswer:
    """Return all metrics."""
    kept = call.service.metrics
    if kept is None:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "this service keeps no metrics")
    return ApiAnswer(
        await call.service.run_blocking(kept.render_metrics), media_type=kept.content_type
    )


METRICS_ROUTES = (
    ApiRoute(
        "GET",
        "/metrics",
        "metrics",
        "Return metrics in Prometheus format",
        expose_metrics,
        Role.READ,
        statuses=(404,),
        media_type="text/plain",
        all_tenants=True,
    ),
)
