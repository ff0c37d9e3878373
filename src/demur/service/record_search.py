"""Stored records for callers: find them page by page, require one, show it.

Tallies say in which hours a record matches, so only those hours are read. The search looks
further and further back until a page is full.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from demur.gate.clock import format_timestamp
from demur.model.decision import Outcome
from demur.model.grant import RecordedGrant
from demur.model.record import DecisionRecord, Personal
from demur.service.calls import ApiCall
from demur.service.problem import invalid_call
from demur.store.backend import RecordFilter
from demur.store.rows import Tallies, hour_of
from demur.store.store import Store

_HORIZONS = tuple(timedelta(days=days) for days in (1, 7, 30, 366, 36_600))
# Clocks of other machines may be ahead.
_CLOCK_SKEW = timedelta(days=366)
_HOUR = timedelta(hours=1)
_MAX_INDEXED_RECORDS = 20_000
_TALLIED_FIELDS = frozenset(
    {"outcome", "verdict", "reason_code", "decision_output", "refusal_class"}
)
_NARROWED_FIELDS = frozenset({"tenant", "action_type", "since", "until", "unreviewed", "before"})


def find_newest(
    store: Store, query: RecordFilter, now: datetime, limit: int
) -> list[DecisionRecord]:
    """Return the newest records that match, at most `limit`.

    A search by text indexes a bounded number of new records first.
    """
    if query.text is not None:
        return list(
            store.find_records(
                query, newest_first=True, limit=limit, index_limit=_MAX_INDEXED_RECORDS
            )
        )
    if not _is_tallied(query):
        return list(store.find_records(query, newest_first=True, limit=limit))
    tenants = [query.tenant] if query.tenant else [head.tenant for head in store.list_heads()]
    found = [
        record
        for tenant in tenants
        for record in islice(_find_by_hours(store, query._replace(tenant=tenant), now), limit)
    ]
    return sorted(found, key=lambda record: record.decision_id, reverse=True)[:limit]


def _is_tallied(query: RecordFilter) -> bool:
    """Return whether tallies can narrow the search, and no index of records can."""
    fields = {name for name, value in query._asdict().items() if value is not None}
    return fields <= _NARROWED_FIELDS | _TALLIED_FIELDS and not fields.isdisjoint(_TALLIED_FIELDS)


def _find_by_hours(store: Store, query: RecordFilter, now: datetime) -> Iterator[DecisionRecord]:
    """Yield a tenant's matching records, newest first, from the hours that hold some."""
    until, oldest = now + _CLOCK_SKEW, query.since or ""
    for horizon in _HORIZONS:
        if format_timestamp(until) <= oldest:
            return
        since = now - horizon
        for first, beyond in _hour_ranges(store.read_tallies(query.tenant, since, until), query):
            low, high = max(format_timestamp(first), oldest), format_timestamp(beyond)
            high = high if query.until is None else min(high, query.until)
            if low < high:
                within = query._replace(since=low, until=high)
                yield from store.find_records(within, newest_first=True)
        until = datetime.fromisoformat(f"{hour_of(since)}:00:00+00:00")


def _hour_ranges(tallies: Tallies, query: RecordFilter) -> Iterator[tuple[datetime, datetime]]:
    """Yield ranges of adjacent hours with matches, newest first."""
    last: tuple[datetime, datetime] | None = None
    for hour in sorted(_matching_hours(tallies, query), reverse=True):
        start = datetime.fromisoformat(f"{hour}:00:00+00:00").astimezone(UTC)
        if last is not None and last[0] == start + _HOUR:
            last = (start, last[1])
            continue
        if last is not None:
            yield last
        last = (start, start + _HOUR)
    if last is not None:
        yield last


def _matching_hours(tallies: Tallies, query: RecordFilter) -> set[str]:
    hours = {
        one.hour
        for one in tallies.decisions
        if query.verdict in {None, one.verdict}
        and query.decision_output in {None, one.decision_output}
        and query.refusal_class in {None, one.refusal_class}
        and query.outcome in {None, Outcome.from_output(one.verdict, one.decision_output)}
    }
    if query.reason_code is None:
        return hours
    return hours & {
        one.hour
        for one in tallies.reasons
        if one.reason_code == query.reason_code and query.verdict in {None, one.verdict}
    }


_ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_OPEN_FIELDS = tuple(name for name in DecisionRecord.__struct_encode_fields__ if name != "sealed")
_PROOF_FIELDS = frozenset({"salt", "fingerprint", "inputs_digest"})
_SEALED_FIELDS = tuple(name for name in Personal.__struct_fields__ if name not in _PROOF_FIELDS)


def record_view(record: DecisionRecord) -> dict[str, Any]:
    """Return the fields of `record.items()` as JSON values.

    The sealed part is decoded once, not once per field.
    """
    personal = record.personal
    if personal is not None and personal.grants:
        # Records of earlier versions hold signatures.
        recorded = tuple(map(RecordedGrant.from_grant, personal.grants))
        personal = msgspec.structs.replace(personal, grants=recorded)
    shown = {name: getattr(record, name) for name in _OPEN_FIELDS}
    for name in _SEALED_FIELDS:
        shown[name] = None if personal is None else getattr(personal, name)
    return shown


def find_record(call: ApiCall, name: str) -> DecisionRecord | None:
    """Return the record of that id, if the caller may see it. May wait for the store."""
    # A text that cannot be an id never reaches the database.
    if not _ID_PATTERN.fullmatch(name):
        return None
    return call.service.store.get(name, call.caller.tenant)


def require_record(call: ApiCall) -> DecisionRecord:
    """Return the record that the path names. May wait for the store.

    Raises:
        ProblemError: There is none, or it is another tenant's; both look the same.
    """
    found = find_record(call, call.path["decision_id"])
    if found is None:
        raise invalid_call(404, "there is no such decision")
    return found
