"""The time range and the time zone of a page, which every link carries.

How a page uses them:

- `time_range = read_range(call.query, now)` reads `last=24h`, or `since` and `until`; `default`
  names the range of a page without one, and `default=None` means any time.
- `render_page(call, ..., time_range=time_range)` makes every `link(...)` of the templates carry it.
  Write each link of a template as `{{ link("/decisions", outcome="refused") }}`; a parameter that
  is given wins over the one that is carried, and `last=""` leaves the range out. A form that leads
  to another page has `{{ carried_fields(frame) }}` of parts.html in it.
- `{{ range_links(time_range, "/reasons") }}` of parts.html is the choice of a range, and
  `{{ range_words(time_range) }}` says it in words.
- `period_counts(call, time_range)` of overview.py counts it, in `time_range.buckets()`.
- Times are in UTC on the server: write `{{ time(...) }}` of parts.html for each. Scripts turn all
  of them into the zone of the reader, unless the page was asked for `zone=utc`. Tell nobody a time
  in another way.

A range of `last=` begins and ends on whole steps in UTC and contains now, so the current step is
one of its steps. `require_range` rounds ends that somebody chose outwards to whole steps, because
counts are those of whole steps; `read_range` keeps them, because a list shows exactly what was
asked for. `since` and `until` are the ends to show and to filter by, `start` and `end` those of the
steps.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import msgspec

from demur.gate.clock import format_timestamp
from demur.service.problem import ProblemError, invalid_call
from demur.service.routes.decisions import parse_time_parameter

ZONES = ("local", "utc")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
# Shorter ranges are counted by the minute, longer ones by the hour.
_MAX_FINE_S = 2 * _HOUR_S
_MAX_BARS = 80
_STEPS_S = (
    *(_MINUTE_S * number for number in (1, 2, 5, 15)),
    *(_HOUR_S * number for number in (1, 3, 6, 12)),
    *(_DAY_S * number for number in (1, 2, 7, 28, 91, 364, 1092)),
)
_FIRST_TIME, _LAST_TIME = datetime(1990, 1, 1, tzinfo=UTC), datetime(2190, 1, 1, tzinfo=UTC)
_CHOSEN_S = 24 * _HOUR_S
_MAX_COMPARED_S = 8 * _DAY_S


class TimeBucket(msgspec.Struct, frozen=True, kw_only=True):
    """A time range from `start` to before `end`, in the format of records."""

    start: str
    end: str


class TimeRange(msgspec.Struct, frozen=True, kw_only=True):
    """A range of `count` steps of `step_s` seconds; `first` is counted in steps since 1970.

    `name` is that of `last=`, and empty if somebody chose the ends. `before` names the range just
    before, if the two are compared. `exact` are ends within the first and the last step.
    """

    name: str
    label: str
    before: str
    first: int
    count: int
    step_s: int
    exact: tuple[str, str] | None = None

    @property
    def start(self) -> datetime:
        """When its first step begins."""
        return _time_of(self.first * self.step_s)

    @property
    def end(self) -> datetime:
        """When its last step is over."""
        return _time_of((self.first + self.count) * self.step_s)

    @property
    def since(self) -> str:
        """When it begins, in the format of records."""
        return self.exact[0] if self.exact else format_timestamp(self.start)

    @property
    def until(self) -> str:
        """When it is over, in the format of records."""
        return self.exact[1] if self.exact else format_timestamp(self.end)

    @property
    def span_s(self) -> int:
        """How long it is, in seconds."""
        return self.count * self.step_s

    @property
    def is_fine(self) -> bool:
        """Whether its steps are parts of hours, so that hourly tallies cannot count it."""
        return self.step_s < _HOUR_S

    @property
    def compared_start(self) -> datetime:
        """When the range before begins, or this one if the two are not compared."""
        return _time_of((self.first - (self.count if self.before else 0)) * self.step_s)

    def query(self) -> dict[str, str]:
        """Return the parameters of a link that keeps this range."""
        return {"last": self.name} if self.name else {"since": self.since, "until": self.until}

    def buckets(self) -> list[TimeBucket]:
        """Return its steps, oldest first."""
        edges = [
            format_timestamp(_time_of(place * self.step_s))
            for place in range(self.first, self.first + self.count + 1)
        ]
        return [TimeBucket(start=start, end=end) for start, end in pairwise(edges)]

    def wider(self) -> dict[str, str]:
        """Return the parameters of a range with the same middle, and twice as long."""
        half = timedelta(seconds=self.span_s / 2)
        start, end = max(self.start - half, _FIRST_TIME), min(self.end + half, _LAST_TIME)
        return {"since": format_timestamp(start), "until": format_timestamp(end)}


class NamedRange(NamedTuple):
    """A range that ends now."""

    label: str
    before: str
    step_s: int
    steps: int


NAMED_RANGES: Mapping[str, NamedRange] = {
    "15m": NamedRange("15 minutes", "the 15 minutes before", _MINUTE_S, 15),
    "1h": NamedRange("hour", "the hour before", 2 * _MINUTE_S, 30),
    "24h": NamedRange("24 hours", "the day before", _HOUR_S, 24),
    "7d": NamedRange("7 days", "the week before", 6 * _HOUR_S, 28),
    "30d": NamedRange("30 days", "", _DAY_S, 30),
}
DEFAULT_RANGE = "24h"


def named_range(name: str, now: datetime) -> TimeRange:
    """Return the range of that name which ends now."""
    label, before, step_s, count = NAMED_RANGES[name]
    first = int(now.timestamp()) // step_s - count + 1
    return TimeRange(name=name, label=label, before=before, first=first, count=count, step_s=step_s)


def range_between(since: datetime, until: datetime) -> TimeRange:
    """Return the range between two times, rounded outwards to whole steps.

    Raises:
        ProblemError: It ends before it begins.
    """
    since, until = max(since, _FIRST_TIME), min(until, _LAST_TIME)
    if since >= until:
        raise invalid_call(422, "the range ends before it begins", "until")
    seconds = (until - since).total_seconds()
    steps = [step for step in _STEPS_S if (step < _HOUR_S) == (seconds <= _MAX_FINE_S)]
    step_s = next(step for step in steps if seconds / step <= _MAX_BARS)
    first = int(since.timestamp() // step_s)
    beyond = -int(-until.timestamp() // step_s)
    span_s = (beyond - first) * step_s
    before = "the same time before" if span_s <= _MAX_COMPARED_S else ""
    return TimeRange(
        name="", label="", before=before, first=first, count=beyond - first, step_s=step_s
    )


def read_range(
    query: Mapping[str, str], now: datetime, default: str | None = DEFAULT_RANGE
) -> TimeRange | None:
    """Return the range of a query with its exact ends, or the default one; None is any time.

    Raises:
        ProblemError: A time cannot be read, or the range ends before it begins.
    """
    since, until = (
        parse_time_parameter(name, query[name]) if query.get(name) else None
        for name in ("since", "until")
    )
    if since is not None or until is not None:
        ends_at = until or max(now, since or now) + timedelta(seconds=1)
        starts_at = since or ends_at - timedelta(seconds=_CHOSEN_S)
        exact = (format_timestamp(starts_at), format_timestamp(ends_at))
        return msgspec.structs.replace(range_between(starts_at, ends_at), exact=exact)
    name = query.get("last") or default
    if name is None or (name not in NAMED_RANGES and default is None):
        return None
    return named_range(name if name in NAMED_RANGES else default or DEFAULT_RANGE, now)


def require_range(
    query: Mapping[str, str], now: datetime, default: str = DEFAULT_RANGE
) -> TimeRange:
    """Return the range of a query in whole steps, or the default one.

    Raises:
        ProblemError: A time cannot be read, or the range ends before it begins.
    """
    time_range = read_range(query, now, default) or named_range(default, now)
    return msgspec.structs.replace(time_range, exact=None)


def carried_query(query: Mapping[str, str], time_range: TimeRange | None) -> dict[str, str]:
    """Return the parameters that every link of a page carries: its range, and its zone."""
    zone = {"zone": query["zone"]} if query.get("zone") in ZONES else {}
    if time_range is not None:
        return {**time_range.query(), **zone}
    if query.get("last") in NAMED_RANGES:
        return {"last": query["last"], **zone}
    kept: dict[str, str] = {}
    for name in ("since", "until"):
        try:
            time = parse_time_parameter(name, query.get(name, ""))
        except ProblemError:
            continue
        kept[name] = format_timestamp(time)
    return {**kept, **zone}


def _time_of(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class AxisTick(msgspec.Struct, frozen=True, kw_only=True):
    """A time at a percentage of the width."""

    time: str
    x: float


_MAX_TICKS = 7
_TICK_STEPS_S = (
    *(_MINUTE_S * number for number in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * number for number in (1, 2, 3, 6, 12)),
    *(_DAY_S * number for number in (1, 2, 5, 7, 14, 28, 91, 182, 364, 728, 3640, 10_920)),
)


def tick_step_s(seconds: float) -> int:
    """Return the distance of the times under a chart of some seconds."""
    return next((step for step in _TICK_STEPS_S if seconds / step <= _MAX_TICKS), _TICK_STEPS_S[-1])


def axis_ticks(start: str, end: str) -> list[AxisTick]:
    """Return the round times in UTC between two times, each at its own place."""
    first = datetime.fromisoformat(start).timestamp()
    span_s = datetime.fromisoformat(end).timestamp() - first
    step_s = tick_step_s(span_s)
    ticks = []
    at = -int(-first // step_s) * step_s
    while at < first + span_s:
        x = 100 * (at - first) / span_s
        ticks.append(AxisTick(time=format_timestamp(_time_of(at)), x=round(x, 2)))
        at += step_s
    return ticks
