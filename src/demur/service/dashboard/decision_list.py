"""The page of all decisions: search, filters, counts over time, order and paging.

A page reads no more than the newest 10,000 records that may match, however many there are: beyond
that, counts are at least so large, and the largest amounts are those among them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from demur.model.decision import Outcome
from demur.model.record import DecisionRecord
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.charts import stacked_chart
from demur.service.dashboard.counts import OUTCOME_ORDER
from demur.service.dashboard.decision_query import (
    FILTER_CHOICES,
    FILTER_NAMES,
    SORT_ORDERS,
    DecisionQuery,
    drop_unknown,
    read_decision_query,
)
from demur.service.dashboard.decisions import decision_row
from demur.service.dashboard.frame import cached_result, render_page
from demur.service.dashboard.rendering import encode_segment
from demur.service.dashboard.time_range import TimeRange, range_between
from demur.service.record_search import find_newest
from demur.store.backend import RecordFilter
from demur.store.rows import RecordMatches
from demur.store.store import Store

PER_PAGE = 50
MAX_MATCHES = 10_000
_FIRST_WINDOW = 500
_MAX_PAGES = MAX_MATCHES // PER_PAGE
_MIN_ID_LENGTH = 6
_MAX_ID_LENGTH = 26
_COUNT_CACHE_S = 10.0
_WHOLE_HOUR_FIELDS = frozenset(
    {"tenant", "outcome", "verdict", "decision_output", "refusal_class", "since", "until"}
)
_FIRST_HOUR, _LAST_HOUR = datetime(1990, 1, 1, tzinfo=UTC), datetime(2190, 1, 1, tzinfo=UTC)


class MatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many decisions match, and when they were made.

    `is_complete` is false if there may be more. `waiting` records cannot be searched yet.
    """

    count: int
    is_complete: bool
    waiting: int
    chart: Any


def decisions_page(call: ApiCall) -> ApiAnswer:
    """Return the page, or redirect to the one decision that the search names."""
    named = _find_named(call, call.query.get("q", "").strip())
    if named is not None:
        return ApiAnswer(b"", 303, headers={"location": f"/decisions/{encode_segment(named)}"})
    call, problem = drop_unknown(call)
    wanted = read_decision_query(call)
    listing = _list_decisions(call, wanted)
    filters = {name: call.query.get(name, "") for name in FILTER_NAMES}
    set_filters = {name: value for name, value in filters.items() if value and name != "sort"}
    return render_page(
        call,
        "decisions.html",
        title="Decisions",
        section="decisions",
        time_range=wanted.time_range,
        rows=[
            decision_row(record, with_tenant=call.chosen_tenant() is None)
            for record in listing.records
        ],
        filters=filters,
        narrowed=[name for name in set_filters if name != "q"],
        filtered=bool(set_filters),
        asked=filters["q"],
        sort=wanted.sort,
        orders=list(SORT_ORDERS.items()),
        counts=listing.counts,
        max_matches=MAX_MATCHES,
        first_page=not any(call.query.get(name) for name in ("before", "after", "page")),
        following={**filters, **listing.following} if listing.following else None,
        problem=problem,
        words=FILTER_CHOICES,
        codes=[entry.code for entry in call.service.gate.registry],
    )


def _find_named(call: ApiCall, text: str) -> str | None:
    """Return the id of the one decision that a text names by its id or its request.

    Raises:
        InputError: The ids of several begin with it.
    """
    store, tenant = call.service.store, call.chosen_tenant()
    if not text:
        return None
    if _MIN_ID_LENGTH <= len(text) <= _MAX_ID_LENGTH and text.isalnum() and text.isascii():
        decision_id = store.resolve_id(text.upper(), call.caller.tenant)
        if decision_id is not None:
            return decision_id
    for name in [head.tenant for head in store.list_heads()] if tenant is None else [tenant]:
        record = store.by_request(name, text)
        if record is not None:
            return record.decision_id
    return None


class _Listing(NamedTuple):
    """The records of one page, the query of the next one, and the counts of all."""

    records: list[DecisionRecord]
    following: Mapping[str, str]
    counts: MatchCounts


def _list_decisions(call: ApiCall, wanted: DecisionQuery) -> _Listing:
    store, query = call.service.store, wanted.record_filter
    counts = None if _needs_records(wanted) else _count_by_hours(call, wanted)
    matches = None
    if counts is None or wanted.sort == "amount":
        matches = _match(store, query)
        counts = counts or _count_matches(matches, wanted.time_range)
    if matches is None and wanted.sort == "newest":
        before = call.query.get("before") or None
        found = find_newest(
            store, query._replace(before=before), call.service.clock(), PER_PAGE + 1
        )
        following = {"before": found[PER_PAGE - 1].decision_id} if len(found) > PER_PAGE else {}
        return _Listing(found[:PER_PAGE], following, counts)
    ids, more = _page_of_matches(call, wanted, matches)
    records = [record for one in ids if (record := store.get(one)) is not None]
    return _Listing(records, more, counts)


def _match(store: Store, query: RecordFilter) -> RecordMatches:
    return store.match_records(query, window=MAX_MATCHES)


def _match_page(store: Store, query: RecordFilter, *, newest_first: bool) -> list[str]:
    """Return the ids of at least one page and one more, if there are so many."""
    for window in (_FIRST_WINDOW, MAX_MATCHES):
        found = store.match_records(query, newest_first=newest_first, window=window)
        if found.is_complete or len(found.rows) > PER_PAGE:
            break
    return [row.decision_id for row in found.rows]


def _page_of_matches(
    call: ApiCall, wanted: DecisionQuery, matches: RecordMatches | None
) -> tuple[list[str], Mapping[str, str]]:
    """Return the ids of a page, and the query of the next one."""
    store, query = call.service.store, wanted.record_filter
    if wanted.sort == "amount":
        assert matches is not None
        number = call.read_number("page", 1, maximum=_MAX_PAGES)
        ordered = sorted(
            matches.rows, key=lambda row: (row.amount_value is None, -(row.amount_value or 0))
        )
        shown = ordered[PER_PAGE * (number - 1) : PER_PAGE * number]
        more = {"page": str(number + 1)} if len(ordered) > PER_PAGE * number else {}
        return [row.decision_id for row in shown], more
    newest_first = wanted.sort == "newest"
    cursor = "before" if newest_first else "after"
    place = call.query.get(cursor) or None
    if matches is not None and (matches.is_complete or (newest_first and place is None)):
        ids = [row.decision_id for row in matches.rows]
        ids = ids if newest_first else ids[::-1]
        if place is not None:
            ids = [one for one in ids if (one < place if newest_first else one > place)]
    else:
        paged = query._replace(before=place) if newest_first else query._replace(after=place)
        ids = _match_page(store, paged, newest_first=newest_first)
    more = {cursor: ids[PER_PAGE - 1]} if len(ids) > PER_PAGE else {}
    return ids[:PER_PAGE], more


# -- counts ---------------------------------------------------------------------------------


def _needs_records(wanted: DecisionQuery) -> bool:
    """Return whether hourly tallies cannot count what matches."""
    query, time_range = wanted.record_filter, wanted.time_range
    fields = {name for name, value in query._asdict().items() if value is not None}
    if not fields <= _WHOLE_HOUR_FIELDS:
        return True
    ends = (query.since, query.until)
    has_parts = any(end is not None and end[13:] != ":00:00.000Z" for end in ends)
    return has_parts or (time_range is not None and time_range.is_fine)


def _count_by_hours(call: ApiCall, wanted: DecisionQuery) -> MatchCounts:
    """Return the counts of tallies, cached for some seconds."""
    key = ("matches", wanted.record_filter)
    return cached_result(
        call.service, key, _COUNT_CACHE_S, lambda: _build_hourly_counts(call, wanted)
    )


def _build_hourly_counts(call: ApiCall, wanted: DecisionQuery) -> MatchCounts:
    query = wanted.record_filter
    since = _FIRST_HOUR if query.since is None else datetime.fromisoformat(query.since)
    until = _LAST_HOUR if query.until is None else datetime.fromisoformat(query.until)
    tallies = call.service.store.read_tallies(query.tenant, since, until, "decision")
    times: list[tuple[datetime, str, int]] = []
    for one in tallies.decisions:
        outcome = Outcome.from_output(one.verdict, one.decision_output)
        if (
            query.verdict in {None, one.verdict}
            and query.decision_output in {None, one.decision_output}
            and query.refusal_class in {None, one.refusal_class}
            and query.outcome in {None, outcome}
        ):
            hour = datetime.fromisoformat(f"{one.hour}:00:00+00:00")
            times.append((hour, outcome, one.number))
    return MatchCounts(
        count=sum(number for *_, number in times),
        is_complete=True,
        waiting=0,
        chart=_draw_times(times, wanted.time_range, timedelta(hours=1)),
    )


def _count_matches(matches: RecordMatches, time_range: TimeRange | None) -> MatchCounts:
    rows = matches.rows[:MAX_MATCHES]
    times = [
        (
            datetime.fromisoformat(row.created_at),
            Outcome.from_output(row.verdict, row.decision_output),
            1,
        )
        for row in rows
    ]
    return MatchCounts(
        count=len(rows),
        is_complete=matches.is_complete and len(matches.rows) <= MAX_MATCHES,
        waiting=matches.waiting,
        chart=_draw_times(times, time_range, timedelta(seconds=1)),
    )


def _draw_times(
    times: Sequence[tuple[datetime, str, int]], time_range: TimeRange | None, step: timedelta
) -> Any:
    """Return the chart of counted times; `step` is how much time each of them stands for."""
    if not times:
        return None
    if time_range is None:
        first = min(time for time, *_ in times)
        time_range = range_between(first, max(time for time, *_ in times) + step)
    begins, step_s = time_range.first, time_range.step_s
    series = {str(outcome): [0] * time_range.count for outcome in OUTCOME_ORDER}
    for time, outcome, number in times:
        place = int(time.timestamp()) // step_s - begins
        if 0 <= place < time_range.count:
            series[outcome][place] += number
    shown = {outcome: counts for outcome, counts in series.items() if any(counts)}
    return stacked_chart(time_range.buckets(), shown, height=84)
