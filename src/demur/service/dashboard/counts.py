"""Counts of a period from tallies, in buckets of time; no record is read."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Verdict
from demur.model.decision import Outcome
from demur.store.rows import FindingTally, Tallies
from demur.store.store import Store

_HOUR_S = 3600


class TimeBucket(msgspec.Struct, frozen=True, kw_only=True):
    """A time range from `start` to before `end`, in the format of records."""

    start: str
    end: str


class LookbackPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period that ends now, in steps. Buckets begin on whole multiples of their step in UTC.

    `before` names the previous period, if the two are compared.
    """

    name: str
    label: str
    before: str
    count: int
    step_h: int

    def first_step(self, now: datetime) -> int:
        """Return the first bucket of the period, as a number of steps since 1970."""
        return hour_index(now) // self.step_h - self.count + 1

    def start_time(self, now: datetime) -> datetime:
        """Return when the period begins."""
        return _hour_time(self.first_step(now) * self.step_h)

    def compared_start(self, now: datetime) -> datetime:
        """Return the start of the previous period, or of this one if it is not compared."""
        back = self.count if self.before else 0
        return _hour_time((self.first_step(now) - back) * self.step_h)

    def buckets(self, now: datetime) -> list[TimeBucket]:
        """Return its buckets, oldest first."""
        first = self.first_step(now)
        return [
            TimeBucket(start=_text_of(index * self.step_h), end=_text_of((index + 1) * self.step_h))
            for index in range(first, first + self.count)
        ]


PERIODS: Mapping[str, LookbackPeriod] = {
    period.name: period
    for period in (
        LookbackPeriod(name="24h", label="24 hours", before="the day before", count=24, step_h=1),
        LookbackPeriod(name="7d", label="7 days", before="the week before", count=28, step_h=6),
        LookbackPeriod(name="30d", label="30 days", before="", count=30, step_h=24),
    )
}
DEFAULT_PERIOD, WEEK = PERIODS["24h"], PERIODS["7d"]
# The same week without a comparison.
WEEK_UNCOMPARED = msgspec.structs.replace(WEEK, name="7d alone", before="")


def find_period(name: str | None) -> LookbackPeriod:
    """Return the period of that name, or the default one."""
    return PERIODS.get(name or "", DEFAULT_PERIOD)


def hour_index(moment: datetime) -> int:
    """Return the hour of a moment, counted from 1970."""
    return int(moment.timestamp()) // _HOUR_S


def _hour_time(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * _HOUR_S, UTC)


def _text_of(hour: int) -> str:
    return _hour_time(hour).strftime("%Y-%m-%dT%H:00:00.000Z")


_MAX_SINGLE_TENANTS = 8
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

    period: LookbackPeriod
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
    store: Store, tenant: str | None, now: datetime, period: LookbackPeriod
) -> PeriodCounts:
    """Count the decisions of a period and of the previous one."""
    names = [tenant]
    if tenant is None:
        own: list[str | None] = [head.tenant for head in store.list_heads()]
        # Reading a few tenants one by one is faster than all together.
        names = own if len(own) <= _MAX_SINGLE_TENANTS else names
    since = period.compared_start(now)
    parts = [store.read_tallies(name, since, now) for name in names]
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
    """The bucket of an hour, and the share of it that counts in a comparison.

    The period is not over yet, so only the same part of the previous one counts.
    """

    bucket: int
    share: float


class _HourPlaces(dict[str, _HourPlace]):
    """The places of hours, computed once each."""

    def __init__(self, period: LookbackPeriod, now: datetime) -> None:
        super().__init__()
        self._first, self._step = period.first_step(now), period.step_h
        self._span = period.count * period.step_h
        self._hours = now.timestamp() / 3600

    def __missing__(self, hour: str) -> _HourPlace:
        index = hour_index(datetime.fromisoformat(f"{hour}:00:00+00:00"))
        passed = min(1.0, max(0.0, self._hours - index - self._span))
        place = self[hour] = _HourPlace(index // self._step - self._first, passed)
        return place


def _build_counts(tallies: Tallies, period: LookbackPeriod, now: datetime) -> PeriodCounts:
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
        buckets=period.buckets(now),
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
