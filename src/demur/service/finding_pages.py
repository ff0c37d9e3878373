"""Finding records page by page, without reading the many that do not match.

Tallies say in which hours something happened, so only those are read. The hours are taken
from a longer and longer past until there is enough for a page.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from demur.gate.clock import timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import Filter
from demur.store.store import Store
from demur.store.tally import Tallies, hour_of

__all__ = ["newest"]

_HORIZONS = tuple(timedelta(days=days) for days in (1, 7, 30, 366, 36_600))
# Clocks of other machines may be ahead.
_AHEAD = timedelta(days=366)
_HOUR = timedelta(hours=1)


def newest(store: Store, wanted: Filter, now: datetime, limit: int) -> list[DecisionRecord]:
    """Return the newest records that match, at most `limit`."""
    if not _is_counted(wanted):
        return list(store.find(wanted, newest_first=True, limit=limit))
    tenants = [wanted.tenant] if wanted.tenant else [head.tenant for head in store.heads()]
    found = [
        record
        for tenant in tenants
        for record in islice(_counted(store, wanted._replace(tenant=tenant), now), limit)
    ]
    return sorted(found, key=lambda record: record.decision_id, reverse=True)[:limit]


def _is_counted(wanted: Filter) -> bool:
    """Return whether tallies can narrow the search, and no index of records can."""
    rest = wanted._replace(
        tenant=None,
        verdict=None,
        reason_code=None,
        decision_output=None,
        refusal_class=None,
        action_type=None,
        since=None,
        until=None,
        unreviewed=None,
        before=None,
    )
    asked = (wanted.verdict, wanted.reason_code, wanted.decision_output, wanted.refusal_class)
    return rest == Filter() and any(asked)


def _counted(store: Store, wanted: Filter, now: datetime) -> Iterator[DecisionRecord]:
    """Yield a tenant's matching records, newest first, from the hours that hold some."""
    until, oldest = now + _AHEAD, wanted.since or ""
    for horizon in _HORIZONS:
        if timestamp(until) <= oldest:
            return
        since = now - horizon
        for first, beyond in _stretches(store.tallies(wanted.tenant, since, until), wanted):
            low, high = max(timestamp(first), oldest), timestamp(beyond)
            high = high if wanted.until is None else min(high, wanted.until)
            if low < high:
                within = wanted._replace(since=low, until=high)
                yield from store.find(within, newest_first=True)
        until = datetime.fromisoformat(f"{hour_of(since)}:00:00+00:00")


def _stretches(counted: Tallies, wanted: Filter) -> Iterator[tuple[datetime, datetime]]:
    """Yield ranges of adjacent hours with matches, newest first."""
    last: tuple[datetime, datetime] | None = None
    for hour in sorted(_hours(counted, wanted), reverse=True):
        start = datetime.fromisoformat(f"{hour}:00:00+00:00").astimezone(UTC)
        if last is not None and last[0] == start + _HOUR:
            last = (start, last[1])
            continue
        if last is not None:
            yield last
        last = (start, start + _HOUR)
    if last is not None:
        yield last


def _hours(counted: Tallies, wanted: Filter) -> set[str]:
    hours = {
        one.hour
        for one in counted.decisions
        if wanted.verdict in {None, one.verdict}
        and wanted.decision_output in {None, one.decision_output}
        and wanted.refusal_class in {None, one.refusal_class}
    }
    if wanted.reason_code is None:
        return hours
    return hours & {
        one.hour
        for one in counted.reasons
        if one.reason_code == wanted.reason_code and wanted.verdict in {None, one.verdict}
    }
