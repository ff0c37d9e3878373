"""Counts of decisions by hour, verdict, reason and surface."""

from collections import Counter
from datetime import timedelta

import msgspec

from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.route import QueryParameter, ApiRoute
from demur.store.tally import Tallies, hours_back

__all__ = ["STATS_ROUTES", "Share", "Stats", "stats_from_tallies"]

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


async def count_decisions(call: ApiCall) -> ApiAnswer:
    """Count the decisions of the last hours."""
    hours = call.read_number("hours", _WEEK_H, maximum=_YEAR_H)
    now = call.service.clock()
    store, tenant = call.service.store, call.chosen_tenant()
    since, until = hours_back(now, hours), now + _INSTANT
    counted = await call.service.run_blocking(store.read_tallies, tenant, since, until)
    return json_answer(stats_from_tallies(counted, hours))


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


STATS_ROUTES = (
    ApiRoute(
        "GET",
        "/v1/stats",
        "stats",
        "Count the decisions of the last hours, by verdict, reason and surface",
        count_decisions,
        Role.READ,
        gives=Stats,
        query=(
            QueryParameter(
                "hours",
                "How many hours back, in UTC, the current one included.",
                {"type": "integer", "minimum": 1, "maximum": _YEAR_H},
            ),
            QueryParameter("tenant", "Only this tenant, for a key of all tenants."),
        ),
    ),
)
