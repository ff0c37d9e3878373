"""Triage over HTTP: count the refusals in a log. Nothing is stored."""

import io
from collections.abc import Callable
from typing import Any, cast

from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.log_bounds import bounded
from demur.service.route import Query, Route
from demur.triage.options import FORMATS, Options
from demur.triage.report import GROUPINGS, as_json
from demur.triage.scan import scan_stream

__all__ = ["ROUTES", "count_log"]

_NAME = "upload"
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
        format=form,
        timed=by in {"hour", "day"},
        now=call.service.clock(),
        samples=samples,
        registry=call.service.gate.registry,
    )
    progress = bounded(call.service)
    return answer(await call.service.scan(count_log, call, by, top, options, progress))


def count_log(
    call: Call, by: str, top: int, options: Options, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Return the counts of the log in the body. May take long; `progress` may stop it."""
    source = cast("io.RawIOBase", io.BytesIO(call.body))
    counts = scan_stream(source, _NAME, options, progress=progress)
    return as_json(counts, [by], call.service.gate.registry, top=top)


_GIVES = {"type": "object", "required": ["by", "total"]}
ROUTES = (
    Route(
        "POST",
        "/v1/triage",
        "triage",
        "Count the refusals in a log",
        triage,
        Role.READ,
        takes={"type": "string", "description": "A log as text or JSON lines, also compressed."},
        gives=_GIVES,
        query=(
            Query("by", "The grouping; the default is `code`.", {"enum": _BY}),
            Query(
                "top", "How many groups.", {"type": "integer", "minimum": 1, "maximum": _MOST_TOP}
            ),
            Query(
                "samples",
                "How many examples of each group.",
                {"type": "integer", "minimum": 1, "maximum": _MOST_SAMPLES},
            ),
            Query("format", "The format of the lines.", {"enum": list(FORMATS)}),
        ),
        body_type="text/plain",
        log=True,
    ),
)
