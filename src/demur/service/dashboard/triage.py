"""The triage page: count the refusals in an uploaded log, and keep nothing."""

from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.forms import parse_uploaded_file
from demur.service.dashboard.frame import render_on_thread, render_page
from demur.service.dashboard.log_counts import LogCounts, count_uploaded_log
from demur.service.log_bounds import limit_log_scan

__all__ = ["triage_page", "triage_upload"]


def triage_page(call: ApiCall) -> ApiAnswer:
    """Return the page with the upload form."""
    return _render_triage(call, None)


async def triage_upload(call: ApiCall) -> ApiAnswer:
    """Count the refusals in a log, and return the page with them."""
    service, progress = call.service, limit_log_scan(call.service)

    def counted() -> LogCounts:
        name, content = parse_uploaded_file(call.body, call.headers.get("content-type", ""))
        return count_uploaded_log(name, content, service.clock(), service.gate.registry, progress)

    counts = await service.run_log_scan(counted)
    return await render_on_thread(lambda seen: _render_triage(seen, counts))(call)


def _render_triage(call: ApiCall, counts: LogCounts | None) -> ApiAnswer:
    return render_page(
        call,
        "triage.html",
        title="Triage",
        section="triage",
        counts=counts,
        largest=call.service.settings.largest_log,
        registry=call.service.gate.registry.label,
    )
