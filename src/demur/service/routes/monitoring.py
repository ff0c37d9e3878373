"""Counts and state over HTTP: statistics, triage of a log, metrics, health."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError
from demur.service.authentication import Role
from demur.service.calls import (
    TENANT_PARAMETER,
    ApiAnswer,
    ApiCall,
    QueryField,
    RouteTable,
    json_answer,
    number_parameter,
)
from demur.service.heavy_work import LogTooLargeError, scan_log
from demur.service.problem import ProblemError, invalid_call
from demur.store.rows import Tallies, hours_back
from demur.triage.counts import FORMATS, RefusalCounts, TriageOptions
from demur.triage.report import GROUPINGS, counts_json
from demur.version import __version__

MONITORING_ROUTES = RouteTable()
_WEEK_H = 168
_YEAR_H = 24 * 366
# The end of a period is exclusive, but it has to include now.
_INSTANT = timedelta(microseconds=1)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A name, how often it occurred, and its part of all decisions."""

    name: str
    count: int
    percent: float


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of a period: verdicts, outputs, reasons, findings, and counts by hour.

    The last hour is the current one, as on every page.
    """

    hours: int
    decisions: int
    verdicts: tuple[Share, ...]
    outputs: tuple[Share, ...]
    reasons: tuple[Share, ...]
    deny_reasons: tuple[Share, ...]
    surfaces: tuple[Share, ...]
    by_hour: dict[str, int]


@MONITORING_ROUTES.add_sync(
    "GET /v1/stats",
    "stats",
    Role.READ,
    gives=Stats,
    query=(
        number_parameter("hours", "How many hours back, in UTC, with the current one.", _YEAR_H),
        TENANT_PARAMETER,
    ),
)
def count_decisions(call: ApiCall) -> Stats:
    """Count the decisions of the last hours, by verdict, reason and surface."""
    hours = call.read_number("hours", _WEEK_H, maximum=_YEAR_H)
    now, tenant = call.service.clock(), call.chosen_tenant()
    since, until = hours_back(now, hours), now + _INSTANT
    return stats_from_tallies(call.service.store.read_tallies(tenant, since, until), hours)


def stats_from_tallies(tallies: Tallies, hours: int) -> Stats:
    """Return the statistics of tallies."""
    verdicts: Counter[str] = Counter()
    outputs: Counter[str] = Counter()
    by_hour: Counter[str] = Counter()
    for decision in tallies.decisions:
        verdicts[decision.verdict] += decision.number
        outputs[decision.decision_output] += decision.number
        by_hour[decision.hour] += decision.number
    reasons: Counter[str] = Counter()
    denied: Counter[str] = Counter()
    for reason in tallies.reasons:
        reasons[reason.reason_code] += reason.number
        if reason.verdict == "DENY":
            denied[reason.reason_code] += reason.number
    surfaces: Counter[str] = Counter()
    for finding in tallies.findings:
        surfaces[finding.surface] += finding.number
    total = verdicts.total()
    return Stats(
        hours=hours,
        decisions=total,
        verdicts=_rank_shares(verdicts, total),
        outputs=_rank_shares(outputs, total),
        reasons=_rank_shares(reasons, total),
        deny_reasons=_rank_shares(denied, verdicts["DENY"]),
        surfaces=_rank_shares(surfaces, surfaces.total()),
        by_hour=dict(sorted(by_hour.items())),
    )


def _rank_shares(counts: Counter[str], total: int) -> tuple[Share, ...]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        Share(name=name, count=count, percent=round(100 * count / total, 2) if total else 0.0)
        for name, count in ordered
    )


_DEFAULT_TOP, _MAX_TOP = 50, 1000
_MAX_SAMPLES = 20
_UPLOAD_GROUPINGS = [name for name in GROUPINGS if name != "file"]


@MONITORING_ROUTES.add(
    "POST /v1/triage",
    "triage",
    Role.READ,
    takes={"type": "string", "description": "A log as text or JSON lines, also compressed."},
    gives={"type": "object", "required": ["by", "total"]},
    query=(
        QueryField("by", "The grouping; the default is `code`.", {"enum": _UPLOAD_GROUPINGS}),
        number_parameter("top", "How many groups.", _MAX_TOP),
        number_parameter("samples", "How many examples of each group.", _MAX_SAMPLES),
        QueryField("format", "The format of the lines.", {"enum": list(FORMATS)}),
    ),
    log=True,
)
async def triage_log(call: ApiCall) -> ApiAnswer:
    """Count the refusals in a log."""
    top = call.read_number("top", _DEFAULT_TOP, maximum=_MAX_TOP)
    by = call.query.get("by") or "code"
    options = TriageOptions(
        format=call.query.get("format") or FORMATS[0],
        timed=by in {"hour", "day"},
        now=call.service.clock(),
        samples=call.read_number("samples", 1, maximum=_MAX_SAMPLES),
    )
    _, counts = await scan_sent_log(call, lambda: ("upload", call.body), options)
    return json_answer(counts_json(counts, [by], call.service.gate.registry, top=top))


# Logs compress to about a tenth. One that expands far more is a decompression bomb.
_MAX_EXPANSION = 16


async def scan_sent_log(
    call: ApiCall, read: Callable[[], tuple[str, bytes]], options: TriageOptions
) -> tuple[str, RefusalCounts]:
    """Return the name and the counts of a log that a caller sent, and that `read` returns.

    Raises:
        ProblemError: It is too large when unpacked.
    """
    service, max_bytes = call.service, call.service.settings.largest_log * _MAX_EXPANSION

    def scan() -> tuple[str, RefusalCounts]:
        name, content = read()
        return name, service.heavy_pool.call(scan_log, content, name, options, max_bytes)

    try:
        return await call.run_heavy(scan)
    except LogTooLargeError as error:
        raise invalid_call(413, error.problem, help=error.help) from error


@MONITORING_ROUTES.add(
    "GET /metrics",
    "metrics",
    Role.READ,
    statuses=(404,),
    media_type="text/plain",
    all_tenants=True,
)
async def expose_metrics(call: ApiCall) -> ApiAnswer:
    """Return metrics in Prometheus format."""
    metrics = call.service.metrics
    if metrics is None:
        raise invalid_call(404, "this service keeps no metrics")
    content = await call.service.run_blocking(metrics.render_metrics)
    return ApiAnswer(content, media_type=metrics.content_type)


# No key is needed, so the store is checked once a second at most.
_STORE_CHECK_S = 1.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service."""

    status: str
    version: str = __version__


@MONITORING_ROUTES.add("GET /healthz", "healthz", None, gives=Health)
@MONITORING_ROUTES.add("GET /health", "health", None, gives=Health)
async def report_health(_: ApiCall) -> ApiAnswer:
    """Report that the process answers."""
    return json_answer(Health(status="up"))


@MONITORING_ROUTES.add("GET /ready", "ready", None, gives=Health, statuses=(503,))
async def report_readiness(call: ApiCall) -> ApiAnswer:
    """Report whether decisions can be made and stored."""
    service = call.service
    if service.closing:
        raise ProblemError(503, ReasonCode.INTERNAL_ERROR, "the service is shutting down")
    now = time.monotonic()
    if service.gate.store is not None and now >= service.checked_at + _STORE_CHECK_S:
        try:
            await service.run_blocking(service.gate.store.info)
        except ProblemError:
            raise
        except DemurError:
            problem = "the store is unavailable"
            raise ProblemError(503, ReasonCode.STORAGE_UNAVAILABLE, problem) from None
        service.checked_at = now
    return json_answer(Health(status="ready"))
