"""The guard report: what guards did in some days, as data and as text, with warnings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from math import sqrt
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.gate.clock import timestamp
from demur.model.finding import Action

__all__ = ["HOUR_S", "Counted", "Day", "GuardReport", "Suspicion", "Thresholds", "report_on"]

HOUR_S = 3600
_DAY = timedelta(days=1)
_STOPS = (Action.BLOCK, Action.ESCALATE)
_FAILURES = (ReasonCode.GUARDRAIL_UNAVAILABLE, ReasonCode.GUARDRAIL_PARTIAL)


class Counted(NamedTuple):
    """The key of a count: activations by code, or, without a code, runs by action."""

    surface: str
    guard: str
    code: str | None = None
    action: str = ""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits above which a warning is given.

    `block_rate`: the share of runs that a guard stops, once there are `min_runs` runs.
    `max_blocks`: the number of stops of a guard whose runs are not counted. `change`: the factor
    between the stops of the last day and the days before, if there are `min_change` stops.
    `silent_runs`: the number of runs that a guard may have without a finding.
    """

    block_rate: float = 0.1
    least_runs: int = 100
    most_blocks: int = 100
    change: float = 3.0
    least_change: int = 20
    silent_runs: int = 1000


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """A warning about a guard."""

    kind: str
    surface: str
    guard: str
    message: str
    help: str


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of 24 hours that end at `until`."""

    until: str
    activations: int
    stopped: int


class GuardReport(msgspec.Struct, frozen=True, kw_only=True):
    """What guards did. `str()` of it is the text for people.

    A run is one guard checking one event. `stopped` counts the runs with a block or an escalation;
    for a guard whose runs are not counted, it counts such findings. `total` and the counts by
    surface, action, code and guard count findings. `trend` is the ratio of activations to
    those of the same number of days before; None if there were none.
    """

    since: str
    until: str
    days: float
    runs: int
    total: int
    stopped: int
    failures: int
    by_surface: Mapping[str, int]
    by_action: Mapping[str, int]
    by_code: Mapping[str, int]
    by_guard: Mapping[str, int]
    daily: tuple[Day, ...]
    trend: float | None
    warnings: tuple[Suspicion, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class _Period:
    """The sum of the counts of some hours."""

    def __init__(self, hours: Iterable[Mapping[Counted, int]]) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()
        self.stopped_runs: Counter[tuple[str, str]] = Counter()
        self.spoken: Counter[Counted] = Counter()
        self.heard: set[tuple[str, str]] = set()
        for counts in hours:
            for counted, count in counts.items():
                self._add(counted, count)

    def _add(self, counted: Counted, count: int) -> None:
        if counted.code is not None:
            self.spoken[counted] += count
            self.heard.add(counted[:2])
            return
        self.runs[counted[:2]] += count
        if counted.action:
            self.heard.add(counted[:2])
        if counted.action in _STOPS:
            self.stopped_runs[counted[:2]] += count

    @property
    def total(self) -> int:
        return self.spoken.total()

    @property
    def guards(self) -> list[tuple[str, str]]:
        return sorted({*self.runs, *self.heard})

    def stopped(self, guard: tuple[str, str] | None = None) -> int:
        """Return the number of stops: of runs where they are counted, else of findings."""
        if guard is None:
            return sum(map(self.stopped, self.guards))
        if self.runs[guard]:
            return self.stopped_runs[guard]
        return sum(
            count
            for counted, count in self.spoken.items()
            if counted.action in _STOPS and counted[:2] == guard
        )

    def by(self, field: str) -> dict[str, int]:
        """Return the activations by a field of their key, most frequent first."""
        counts: Counter[str] = Counter()
        for counted, count in self.spoken.items():
            counts[getattr(counted, field) or "unknown"] += count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def failures(self, guard: tuple[str, str] | None = None) -> int:
        return sum(
            count
            for counted, count in self.spoken.items()
            if counted.code in _FAILURES and guard in {None, counted[:2]}
        )


def report_on(
    hours: Mapping[int, Mapping[Counted, int]],
    *,
    now: datetime,
    days: float,
    thresholds: Thresholds,
) -> GuardReport:
    """Return the report on the last days before `now`, from counts by the hour since 1970."""
    span = timedelta(days=days)
    period = _between(hours, now - span, now)
    before = _between(hours, now - 2 * span, now - span)
    return GuardReport(
        since=timestamp(now - span),
        until=timestamp(now),
        days=days,
        runs=period.runs.total(),
        total=period.total,
        stopped=period.stopped(),
        failures=period.failures(),
        by_surface=period.by("surface"),
        by_action=period.by("action"),
        by_code=period.by("code"),
        by_guard=period.by("guard"),
        daily=tuple(_daily(hours, now, days)),
        trend=round(period.total / before.total, 2) if before.total else None,
        warnings=tuple(_warnings(period, hours, now, days, thresholds)),
    )


def _between(
    hours: Mapping[int, Mapping[Counted, int]], since: datetime, until: datetime
) -> _Period:
    # An hour belongs to the period in which it begins, so that none counts twice.
    first, last = since.timestamp() / HOUR_S, until.timestamp() / HOUR_S
    return _Period(counts for hour, counts in hours.items() if first < hour <= last)


def _daily(hours: Mapping[int, Mapping[Counted, int]], now: datetime, days: float) -> Iterator[Day]:
    for back in range(min(round(days), 366) - 1, -1, -1):
        until = now - back * _DAY
        day = _between(hours, until - _DAY, until)
        yield Day(until=timestamp(until), activations=day.total, stopped=day.stopped())


def _warnings(
    period: _Period,
    hours: Mapping[int, Mapping[Counted, int]],
    now: datetime,
    days: float,
    limits: Thresholds,
) -> Iterator[Suspicion]:
    last = _between(hours, now - _DAY, now)
    earlier = _between(hours, now - timedelta(days=days), now - _DAY)
    for guard in period.guards:
        for found in (
            _too_many(guard, period, limits),
            _changed(guard, last, earlier, days - 1, limits),
            _silent(guard, period, limits),
            _failing(guard, period),
        ):
            if found is not None:
                kind, message, help_text = found
                yield Suspicion(
                    kind=kind, surface=guard[0], guard=guard[1], message=message, help=help_text
                )


_Found = tuple[str, str, str] | None


def _too_many(guard: tuple[str, str], period: _Period, limits: Thresholds) -> _Found:
    runs, stopped = period.runs[guard], period.stopped(guard)
    if runs >= limits.least_runs and stopped / runs > limits.block_rate:
        message = f"stops {stopped / runs:.0%} of what it sees ({stopped} of {runs})"
    elif not runs and stopped > limits.most_blocks:
        message = f"stopped {stopped} requests"
    else:
        return None
    return "high_block_rate", message, "look for false positives: read some of its previews"


def _changed(
    guard: tuple[str, str], last: _Period, earlier: _Period, days: float, limits: Thresholds
) -> _Found:
    before, now = earlier.stopped(guard), last.stopped(guard)
    if not before or days <= 0:
        return None
    if earlier.runs[guard] and last.runs[guard]:
        # Expect the earlier rate of stops among the runs of the last day.
        expected = before / earlier.runs[guard] * last.runs[guard]
    else:
        expected = before / days
    more, fewer = now > expected * limits.change, now * limits.change < expected
    by_chance = abs(now - expected) <= 3 * sqrt(expected + 1)
    if by_chance or max(now, expected) < limits.least_change or not (more or fewer):
        return None
    word = "more" if more else "fewer"
    message = f"stopped {now} in the last day, {word} than the {expected:.0f} to be expected"
    return "sudden_change", message, "look for an attack, a new client, or a change of rules"


def _silent(guard: tuple[str, str], period: _Period, limits: Thresholds) -> _Found:
    if guard in period.heard or period.runs[guard] < limits.silent_runs:
        return None
    message = f"never spoke in {period.runs[guard]} runs"
    return "never_fires", message, "see whether it is given what it should look at"


def _failing(guard: tuple[str, str], period: _Period) -> _Found:
    failures = period.failures(guard)
    if not failures:
        return None
    runs = period.runs[guard]
    message = f"gave no verdict {failures} times" + (f" in {runs} runs" if runs else "")
    return "failures", message, "the log says why; raise its timeout, or repair it"


def _lines(report: GuardReport) -> Iterator[str]:
    day = "day" if report.days == 1 else "days"
    yield f"Guardrail report (last {report.days:g} {day})"
    runs = f" in {report.runs} runs" if report.runs else ""
    share = f" ({report.stopped / report.runs:.1%})" if report.runs >= report.stopped > 0 else ""
    yield f"Total activations: {report.total}{runs}, {report.stopped} stopped{share}"
    for label, counts in (
        ("surface", report.by_surface),
        ("action", report.by_action),
        ("code", report.by_code),
    ):
        if counts:
            yield f"By {label}: {', '.join(f'{name} {n}' for name, n in counts.items())}"
    if report.trend is not None:
        yield f"Trend: {report.trend:g} times as many as in the {report.days:g} {day} before"
    for found in report.warnings:
        yield f"warning[{found.kind}] {found.surface}/{found.guard} {found.message}"
        yield f"  help: {found.help}"
