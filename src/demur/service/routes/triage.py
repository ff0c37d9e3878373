"""Triage over HTTP: count the refusals in a log. Nothing is stored."""

import io
from collections.abc import Callable
from typing import Any, cast

from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.log_bounds import limit_log_scan
from demur.service.route import QueryParameter, ApiRoute
from demur.triage.options import FORMATS, TriageOptions
from demur.triage.report import GROUPINGS, counts_json
from demur.triage.scan import scan_stream

__all__ = ["TRIAGE_ROUTES", "count_log"]

_UPLOAD_NAME = "upload"
_DEFAULT_TOP, _MAX_TOP = 50, 1000
_MAX_SAMPLES = 20
_UPLOAD_GROUPINGS = [name for name in GROUPINGS if name != "file"]


async def triage_log(call: ApiCall) -> ApiAnswer:
    """Count the refusals in a log."""
    top = call.read_number("top", _DEFAULT_TOP, maximum=_MAX_TOP)
    samples = call.read_number("samples", 1, maximum=_MAX_SAMPLES)
    by = call.query.get("by") or "code"
    form = call.query.get("format") or FORMATS[0]
    options = TriageOptions(
        format=form,
        timed=by in {"hour", "day"},
        now=call.service.clock(),
        samples=samples,
        registry=call.service.gate.registry,
    )
    progress = limit_log_scan(call.service)
    return json_answer(await call.service.run_log_scan(count_log, call, by, top, options, progress))


def count_log(
    call: ApiCall, by: str, top: int, options: TriageOptions, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Return the counts of the log in the body. May take long; `progress` may stop it."""
    source = cast("io.RawIOBase", io.BytesIO(call.body))
    counts = scan_stream(source, _UPLOAD_NAME, options, progress=progress)
    return counts_json(counts, [by], call.service.gate.registry, top=top)


_COUNTS_SCHEMA = {"type": "object", "required": ["by", "total"]}
TRIAGE_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/triage",
        "triage",
        "Count the refusals in a log",
        triage_log,
        Role.READ,
        takes={"type": "string", "description": "A log as text or JSON lines, also compressed."},
        gives=_COUNTS_SCHEMA,
        query=(
            QueryParameter(
                "by", "The grouping; the default is `code`.", {"enum": _UPLOAD_GROUPINGS}
            ),
            QueryParameter(
                "top", "How many groups.", {"type": "integer", "minimum": 1, "maximum": _MAX_TOP}
            ),
            QueryParameter(
                "samples",
                "How many examples of each group.",
                {"type": "integer", "minimum": 1, "maximum": _MAX_SAMPLES},
            ),
            QueryParameter("format", "The format of the lines.", {"enum": list(FORMATS)}),
        ),
        body_type="text/plain",
        log=True,
    ),
)
