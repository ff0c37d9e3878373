"""Triage over HTTP: send a log, get the counts of the refusals in it. Nothing is kept."""

import io
import time
from collections.abc import Callable
from typing import Any, cast

from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.problem import invalid
from demur.service.route import Query, Route
from demur.triage.options import FORMATS, Options
from demur.triage.report import GROUPINGS, as_json
from demur.triage.scan import scan_stream

__all__ = ["ROUTES", "count_log"]

_NAME = "upload"
# A log shrinks to a tenth; what shrinks to a thousandth was made to be large.
_MOST_EXPANSION = 16
_USUAL_TOP, _MOST_TOP = 50, 1000
_MOST_SAMPLES = 20
_BY = [name for name in GROUPINGS if name != "file"]


async def triage(call: Call) -> Answer:
    """Count the refusals in a log."""
    top = call.number("top", _USUAL_TOP, most=_MOST_TOP)
    samples = call.number("samples", 1, most=_MOST_SAMPLES)
    by = call.query.get("by") or "code"
    form = call.query.get("format") or FORMATS[0]
    options = Options(
        format=form, timed=by in {"hour", "day"}, now=call.service.clock(), samples=samples
    )
    return answer(await call.service.work(count_log, call, by, top, options))


def count_log(call: Call, by: str, top: int, options: Options) -> dict[str, Any]:
    """Return the counts of the log in the body. May work for long.

    Raises:
        ProblemError: It is too large when it is unpacked, or takes too long.
    """
    settings = call.service.settings
    progress = _bounded(settings.largest_log * _MOST_EXPANSION, settings.timeout_s)
    source = cast("io.RawIOBase", io.BytesIO(call.body))
    counts = scan_stream(source, _NAME, options, progress=progress)
    return as_json(counts, [by], call.service.gate.registry, top=top)


def _bounded(largest: int, timeout_s: float) -> Callable[[int], None]:
    """Return what hears how much was read, and ends it where that is too much."""
    end = time.monotonic() + timeout_s
    left = [largest]

    def progress(read: int) -> None:
        left[0] -= read
        if left[0] < 0:
            raise invalid(413, f"a log has at most {largest} bytes once it is unpacked")
        if time.monotonic() > end:
            # Whoever asked was told so; the thread has to hear of it, too.
            raise TimeoutError

    return progress


_GIVES = {"type": "object", "required": ["by", "total"]}
ROUTES = (
    Route(
        "POST",
        "/v1/triage",
        "triage",
        "Count the refusals in a log",
        triage,
        Role.READ,
        takes={"type": "string", "description": "A log, as text or JSON lines; also packed."},
        gives=_GIVES,
        query=(
            Query("by", "What to count by; `code` unless said.", {"enum": _BY}),
            Query(
                "top", "How many groups.", {"type": "integer", "minimum": 1, "maximum": _MOST_TOP}
            ),
            Query(
                "samples",
                "How many examples of each.",
                {"type": "integer", "minimum": 1, "maximum": _MOST_SAMPLES},
            ),
            Query("format", "What the lines are.", {"enum": list(FORMATS)}),
        ),
        body_type="text/plain",
        log=True,
    ),
)
