"""The triage page: count the refusals in an uploaded log, and keep nothing."""

from demur.service.call import Answer, Call
from demur.service.dashboard.forms import file_of
from demur.service.dashboard.frame import on_thread, page
from demur.service.dashboard.log_counts import LogCounts, count_log
from demur.service.log_bounds import bounded

__all__ = ["triage_page", "triaged"]


def triage_page(call: Call) -> Answer:
    """Return the page with the upload form."""
    return _page(call, None)


async def triaged(call: Call) -> Answer:
    """Count the refusals in a log, and return the page with them."""
    service, progress = call.service, bounded(call.service)

    def counted() -> LogCounts:
        name, content = file_of(call.body, call.headers.get("content-type", ""))
        return count_log(name, content, service.clock(), service.gate.registry, progress)

    counts = await service.scan(counted)
    return await on_thread(lambda seen: _page(seen, counts))(call)


def _page(call: Call, counts: LogCounts | None) -> Answer:
    return page(
        call,
        "triage.html",
        title="Triage",
        section="triage",
        counts=counts,
        largest=call.service.settings.largest_log,
        registry=call.service.gate.registry.label,
    )
