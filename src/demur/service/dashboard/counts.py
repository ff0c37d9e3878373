"""Counts of a range of time in buckets: from hourly tallies, and by the minute for short ranges."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Verdict
from demur.gate.clock import format_timestamp
from demur.model.decision import Outcome
from demur.service.dashboard.time_range import TimeBucket, TimeRange
from demur.store.backend import RecordFilter
from demur.store.rows import FindingTally, Tallies
from demur.store.store import Store

# Refusals of this period wait for a label, and their labels are counted.
REVIEW_PERIOD = timedelta(days=90)
REVIEWED_VERDICTS = (Verdict.ESCALATE, Verdict.DENY, Verdict.ABSTAIN)


def count_waiting(store: Store, tenant: str | None, now: datetime) -> dict[str, int]:
    """Return how many refusals wait for a label, by verdict."""
    # Decisions before the oldest that is left were retired, and are still in the tallies.
    oldest = next(store.find_records(RecordFilter(tenant=tenant), limit=1), None)
    if oldest is None:
        return {}
    since = max(now - REVIEW_PERIOD, datetime.fromisoformat(oldest.created_at))
    waiting = store.count_unreviewed(tenant, since)
    return {verdict: waiting.get(verdict, 0) for verdict in REVIEWED_VERDICTS}


_MAX_SINGLE_TENANTS = 8
_DAY_S = 86_400
# From least to most severe: the order of every bar and legend.
OUTCOME_ORDER = (
    Outcome.ALLOWED,
    Outcome.ALLOWED_WITH_LIMITS,
    Outcome.NEEDS_SOMETHING,
    Outcome.COULD_NOT_JUDGE,
    Outcome.REFUSED,
)


class OutcomeCount(msgspec.Struct, frozen=True, kw_only=True):
    """The count of an outcome, and its count in the previous period."""

    outcome: str
    count: int
    before: int
    percent: float
    series: list[int]


class CodeCount(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a reason: its share of all decisions, by verdict, and over time."""

    code: str
    count: int
    before: int
    percent: float
    verdicts: dict[str, int]
    series: list[int]


class SurfaceCount(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a surface's findings, by action and by code."""

    surface: str
    count: int
    percent: float
    actions: dict[str, int]
    codes: list[tuple[str, int]]


class PeriodCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a period. `series` are counts by bucket."""

    period: TimeRange
    buckets: list[TimeBucket]
    decisions: int
    before: int
    series: list[int]
    outcomes: list[OutcomeCount]
    verdicts: dict[str, int]
    codes: list[CodeCount]
    surfaces: list[SurfaceCount]

    def code_counts(self, code: str) -> CodeCount:
        """Return the counts of a code, all zero if it was not given."""
        empty = CodeCount(
            code=code, count=0, before=0, percent=0, verdicts={}, series=[0] * len(self.buckets)
        )
        return next((one for one in self.codes if one.code == code), empty)

    def denied_codes(self) -> list[CodeCount]:
        """Return the codes of denials, most first; percentages are of denials."""
        total = self.verdicts.get(Verdict.DENY, 0)
        return _order_codes(
            msgspec.structs.replace(one, count=denied, percent=_percent_of(denied, total))
            for one in self.codes
            if (denied := one.verdicts.get(Verdict.DENY, 0))
        )


def count_period(
    store: Store, tenant: str | None, now: datetime, period: TimeRange
) -> PeriodCounts:
    """Count the decisions of a range and of the one before."""
    names = [tenant]
    if tenant is None:
        own: list[str | None] = [head.tenant for head in store.list_heads()]
        # Reading a few tenants one by one is faster than all together.
        names = own if len(own) <= _MAX_SINGLE_TENANTS else names
    if period.is_fine:
        times = (format_timestamp(period.compared_start), format_timestamp(period.end))
        parts = [store.count_minutes(name, *times) for name in names]
    else:
        # Only a range that is compared needs the hours of its days.
        by_day = period.step_s % _DAY_S == 0 and not period.before
        parts = [
            store.read_tallies(name, period.compared_start, period.end, by_day=by_day)
            for name in names
        ]
    # From nothing on, because there may be no tenant.
    kinds = zip(Tallies((), (), ()), *parts, strict=True)
    tallies = Tallies(*(tuple(chain.from_iterable(kind)) for kind in kinds))
    return _build_counts(tallies, period, now)


class _BucketSums:
    """Counts by name: in the period, in the previous one, and by bucket."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.now: Counter[str] = Counter()
        self.before: defaultdict[str, float] = defaultdict(float)
        self._series: dict[str, list[int]] = {}

    def add(self, place: "_HourPlace", name: str, number: int) -> None:
        """Add a number to a bucket; negative buckets belong to the previous period."""
        if place.bucket < 0:
            self.before[name] += number * place.share
            return
        self.now[name] += number
        self.series(name)[place.bucket] += number

    def series(self, name: str) -> list[int]:
        """Return the counts by bucket."""
        found = self._series.get(name)
        if found is None:
            found = self._series[name] = [0] * self._count
        return found


class _HourPlace(NamedTuple):
    """The bucket of an hour or minute, and the share of it that counts in a comparison.

    A range that is not over yet is compared with the same part of the one before.
    """

    bucket: int
    share: float


class _HourPlaces(dict[str, _HourPlace]):
    """The places of hours or minutes, computed once each."""

    def __init__(self, period: TimeRange, now: datetime) -> None:
        super().__init__()
        self._first, self._step_s = period.first, period.step_s
        self._unit_s = 60 if period.is_fine else 3600
        self._passed_s = now.timestamp() - period.span_s

    def __missing__(self, hour: str) -> _HourPlace:
        # An hour ends in `T12`, a minute in `T12:30`.
        time = datetime.fromisoformat(f"{hour}{':00' if ':' in hour else ':00:00'}+00:00")
        begins_s = int(time.timestamp())
        share = min(1.0, max(0.0, (self._passed_s - begins_s) / self._unit_s))
        place = self[hour] = _HourPlace(begins_s // self._step_s - self._first, share)
        return place


def _build_counts(tallies: Tallies, period: TimeRange, now: datetime) -> PeriodCounts:
    places = _HourPlaces(period, now)
    outcomes, codes = _BucketSums(period.count), _BucketSums(period.count)
    verdicts: Counter[str] = Counter()
    for hour, verdict, output, _, number in tallies.decisions:
        place = places[hour]
        outcomes.add(place, Outcome.from_output(verdict, output), number)
        if place.bucket >= 0:
            verdicts[verdict] += number
    split: dict[str, Counter[str]] = defaultdict(Counter)
    for hour, code, verdict, number in tallies.reasons:
        place = places[hour]
        codes.add(place, code, number)
        if place.bucket >= 0:
            split[code][verdict] += number
    total = outcomes.now.total()
    shown = [
        OutcomeCount(
            outcome=outcome,
            count=outcomes.now[outcome],
            before=round(outcomes.before[outcome]),
            percent=_percent_of(outcomes.now[outcome], total),
            series=outcomes.series(outcome),
        )
        for outcome in OUTCOME_ORDER
    ]
    return PeriodCounts(
        period=period,
        buckets=period.buckets(),
        decisions=total,
        before=round(sum(outcomes.before.values())),
        series=[sum(one) for one in zip(*(one.series for one in shown), strict=True)],
        outcomes=shown,
        verdicts=dict(verdicts),
        codes=_order_codes(_code_counts(codes, split, total)),
        surfaces=_surface_counts(tallies.findings, places),
    )


def _code_counts(
    codes: _BucketSums, split: dict[str, Counter[str]], total: int
) -> Iterator[CodeCount]:
    for code, count in codes.now.items():
        yield CodeCount(
            code=code,
            count=count,
            before=round(codes.before[code]),
            percent=_percent_of(count, total),
            verdicts=dict(split[code]),
            series=codes.series(code),
        )


def _surface_counts(findings: Iterable[FindingTally], places: _HourPlaces) -> list[SurfaceCount]:
    actions: dict[str, Counter[str]] = defaultdict(Counter)
    codes: dict[str, Counter[str]] = defaultdict(Counter)
    for hour, surface, code, action, number in findings:
        if places[hour].bucket >= 0:
            actions[surface][action] += number
            codes[surface][code] += number
    total = sum(one.total() for one in actions.values())
    counts = [
        SurfaceCount(
            surface=surface,
            count=counter.total(),
            percent=_percent_of(counter.total(), total),
            actions=dict(counter),
            codes=sorted(codes[surface].items(), key=lambda item: (-item[1], item[0]))[:3],
        )
        for surface, counter in actions.items()
    ]
    return sorted(counts, key=lambda one: (-one.count, one.surface))


def _order_codes(codes: Iterable[CodeCount]) -> list[CodeCount]:
    return sorted(codes, key=lambda one: (-one.count, one.code))


def _percent_of(count: int, total: int) -> float:
    return 100 * count / total if total else 0.0
