"""Finding records page by page, without reading the many that do not match.

Tallies say in which hours something happened, so only those are read. The hours are taken
from a longer and longer past until there is enough for a page.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.store import Store
from demur.store.tally import Tallies, hour_of

__all__ = ["find_newest"]

_HORIZONS = tuple(timedelta(days=days) for days in (1, 7, 30, 366, 36_600))
# Clocks of other machines may be ahead.
_CLOCK_SKEW = timedelta(days=366)
_HOUR = timedelta(hours=1)


def find_newest(
    store: Store, record_filter: RecordFilter, now: datetime, limit: int
) -> list[DecisionRecord]:
    """Return the newest records that match, at most `limit`."""
    if not _is_tallied(record_filter):
        return list(store.find_records(record_filter, newest_first=True, limit=limit))
    tenants = (
        [record_filter.tenant]
        if record_filter.tenant
        else [head.tenant for head in store.list_heads()]
    )
    found = [
        record
        for tenant in tenants
        for record in islice(
            _find_by_hours(store, record_filter._replace(tenant=tenant), now), limit
        )
    ]
    return sorted(found, key=lambda record: record.decision_id, reverse=True)[:limit]


def _is_tallied(record_filter: RecordFilter) -> bool:
    """Return whether tallies can narrow the search, and no index of records can."""
    rest = record_filter._replace(
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
    asked = (
        record_filter.verdict,
        record_filter.reason_code,
        record_filter.decision_output,
        record_filter.refusal_class,
    )
    return rest == RecordFilter() and any(asked)


def _find_by_hours(
    store: Store, record_filter: RecordFilter, now: datetime
) -> Iterator[DecisionRecord]:
    """Yield a tenant's matching records, newest first, from the hours that hold some."""
    until, oldest = now + _CLOCK_SKEW, record_filter.since or ""
    for horizon in _HORIZONS:
        if format_timestamp(until) <= oldest:
            return
        since = now - horizon
        for first, beyond in _hour_ranges(
            store.read_tallies(record_filter.tenant, since, until), record_filter
        ):
            low, high = max(format_timestamp(first), oldest), format_timestamp(beyond)
            high = high if record_filter.until is None else min(high, record_filter.until)
            if low < high:
                within = record_filter._replace(since=low, until=high)
                yield from store.find_records(within, newest_first=True)
        until = datetime.fromisoformat(f"{hour_of(since)}:00:00+00:00")


def _hour_ranges(
    tallies: Tallies, record_filter: RecordFilter
) -> Iterator[tuple[datetime, datetime]]:
    """Yield ranges of adjacent hours with matches, newest first."""
    last: tuple[datetime, datetime] | None = None
    for hour in sorted(_matching_hours(tallies, record_filter), reverse=True):
        start = datetime.fromisoformat(f"{hour}:00:00+00:00").astimezone(UTC)
        if last is not None and last[0] == start + _HOUR:
            last = (start, last[1])
            continue
        if last is not None:
            yield last
        last = (start, start + _HOUR)
    if last is not None:
        yield last


def _matching_hours(tallies: Tallies, record_filter: RecordFilter) -> set[str]:
    hours = {
        one.hour
        for one in tallies.decisions
        if record_filter.verdict in {None, one.verdict}
        and record_filter.decision_output in {None, one.decision_output}
        and record_filter.refusal_class in {None, one.refusal_class}
    }
    if record_filter.reason_code is None:
        return hours
    return hours & {
        one.hour
        for one in tallies.reasons
        if one.reason_code == record_filter.reason_code
        and record_filter.verdict in {None, one.verdict}
    }
