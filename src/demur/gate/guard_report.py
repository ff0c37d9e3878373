"""The guard report: what guards did in some days, as data and as text, with warnings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from math import sqrt
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.gate.clock import format_timestamp
from demur.model.finding import Action

__all__ = [
    "HOUR_S",
    "ActivationKey",
    "GuardReportDay",
    "GuardReport",
    "GuardWarning",
    "GuardThresholds",
    "build_guard_report",
]

HOUR_S = 3600
_DAY = timedelta(days=1)
_STOPS = (Action.BLOCK, Action.ESCALATE)
_FAILURES = (ReasonCode.GUARDRAIL_UNAVAILABLE, ReasonCode.GUARDRAIL_PARTIAL)


class ActivationKey(NamedTuple):
    """The key of a count: activations by code, or, without a code, runs by action."""

    surface: str
    guard: str
    code: str | None = None
    action: str = ""


class GuardThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits above which a warning is given.

    `block_rate`: the share of runs that a guard stops, once there are `min_runs` runs.
    `max_blocks`: the number of stops of a guard whose runs are not counted. `change`: the factor
    between the stops of the last day and the days before, if there are `min_change` stops.
    `silent_runs`: the number of runs that a guard may have without a finding.
    """

    block_rate: float = 0.1
    min_runs: int = 100
    max_blocks: int = 100
    change: float = 3.0
    min_change: int = 20
    silent_runs: int = 1000


class GuardWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A warning about a guard."""

    kind: str
    surface: str
    guard: str
    message: str
    help: str


class GuardReportDay(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of 24 hours that end at `until`."""

    until: str
    activations: int
    stopped: int


class GuardReport(msgspec.Struct, frozen=True, kw_only=True):
    """What guards did. `str()` of it is the text for people.

    A run is one guard checking one event. `count_stopped` counts the runs with a block or an escalation;
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
    daily: tuple[GuardReportDay, ...]
    trend: float | None
    warnings: tuple[GuardWarning, ...]

    def __str__(self) -> str:
        return "\n".join(_report_lines(self))


class _CountPeriod:
    """The sum of the counts of some hours."""

    def __init__(self, hours: Iterable[Mapping[ActivationKey, int]]) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()
        self.stopped_runs: Counter[tuple[str, str]] = Counter()
        self.spoken: Counter[ActivationKey] = Counter()
        self.heard: set[tuple[str, str]] = set()
        for counts in hours:
            for counted, count in counts.items():
                self._add_count(counted, count)

    def _add_count(self, counted: ActivationKey, count: int) -> None:
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

    def count_stopped(self, guard: tuple[str, str] | None = None) -> int:
        """Return the number of stops: of runs where they are counted, else of findings."""
        if guard is None:
            return sum(map(self.count_stopped, self.guards))
        if self.runs[guard]:
            return self.stopped_runs[guard]
        return sum(
            count
            for counted, count in self.spoken.items()
            if counted.action in _STOPS and counted[:2] == guard
        )

    def count_by(self, field: str) -> dict[str, int]:
        """Return the activations by a field of their key, most frequent first."""
        counts: Counter[str] = Counter()
        for counted, count in self.spoken.items():
            counts[getattr(counted, field) or "unknown"] += count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def count_failures(self, guard: tuple[str, str] | None = None) -> int:
        return sum(
            count
            for counted, count in self.spoken.items()
            if counted.code in _FAILURES and guard in {None, counted[:2]}
        )


def build_guard_report(
    hours: Mapping[int, Mapping[ActivationKey, int]],
    *,
    now: datetime,
    days: float,
    thresholds: GuardThresholds,
) -> GuardReport:
    """Return the report on the last days before `now`, from counts by the hour since 1970."""
    span = timedelta(days=days)
    period = _period_between(hours, now - span, now)
    before = _period_between(hours, now - 2 * span, now - span)
    return GuardReport(
        since=format_timestamp(now - span),
        until=format_timestamp(now),
        days=days,
        runs=period.runs.total(),
        total=period.total,
        stopped=period.count_stopped(),
        failures=period.count_failures(),
        by_surface=period.count_by("surface"),
        by_action=period.count_by("action"),
        by_code=period.count_by("code"),
        by_guard=period.count_by("guard"),
        daily=tuple(_daily_counts(hours, now, days)),
        trend=round(period.total / before.total, 2) if before.total else None,
        warnings=tuple(_find_warnings(period, hours, now, days, thresholds)),
    )


def _period_between(
    hours: Mapping[int, Mapping[ActivationKey, int]], since: datetime, until: datetime
) -> _CountPeriod:
    # An hour belongs to the period in which it begins, so that none counts twice.
    first, last = since.timestamp() / HOUR_S, until.timestamp() / HOUR_S
    return _CountPeriod(counts for hour, counts in hours.items() if first < hour <= last)


def _daily_counts(
    hours: Mapping[int, Mapping[ActivationKey, int]], now: datetime, days: float
) -> Iterator[GuardReportDay]:
    for back in range(min(round(days), 366) - 1, -1, -1):
        until = now - back * _DAY
        day = _period_between(hours, until - _DAY, until)
        yield GuardReportDay(
            until=format_timestamp(until), activations=day.total, stopped=day.count_stopped()
        )


def _find_warnings(
    period: _CountPeriod,
    hours: Mapping[int, Mapping[ActivationKey, int]],
    now: datetime,
    days: float,
    limits: GuardThresholds,
) -> Iterator[GuardWarning]:
    last = _period_between(hours, now - _DAY, now)
    earlier = _period_between(hours, now - timedelta(days=days), now - _DAY)
    for guard in period.guards:
        for found in (
            _too_many(guard, period, limits),
            _sudden_change(guard, last, earlier, days - 1, limits),
            _silent_guard(guard, period, limits),
            _failing_guard(guard, period),
        ):
            if found is not None:
                kind, message, help_text = found
                yield GuardWarning(
                    kind=kind, surface=guard[0], guard=guard[1], message=message, help=help_text
                )


_WarningText = tuple[str, str, str] | None


def _too_many(
    guard: tuple[str, str], period: _CountPeriod, limits: GuardThresholds
) -> _WarningText:
    runs, stopped = period.runs[guard], period.count_stopped(guard)
    if runs >= limits.min_runs and stopped / runs > limits.block_rate:
        message = f"stops {stopped / runs:.0%} of what it sees ({stopped} of {runs})"
    elif not runs and stopped > limits.max_blocks:
        message = f"stopped {stopped} requests"
    else:
        return None
    return "high_block_rate", message, "look for false positives: read some of its previews"


def _sudden_change(
    guard: tuple[str, str],
    last: _CountPeriod,
    earlier: _CountPeriod,
    days: float,
    limits: GuardThresholds,
) -> _WarningText:
    before, now = earlier.count_stopped(guard), last.count_stopped(guard)
    if not before or days <= 0:
        return None
    if earlier.runs[guard] and last.runs[guard]:
        # Expect the earlier rate of stops among the runs of the last day.
        expected = before / earlier.runs[guard] * last.runs[guard]
    else:
        expected = before / days
    more, fewer = now > expected * limits.change, now * limits.change < expected
    by_chance = abs(now - expected) <= 3 * sqrt(expected + 1)
    if by_chance or max(now, expected) < limits.min_change or not (more or fewer):
        return None
    word = "more" if more else "fewer"
    message = f"stopped {now} in the last day, {word} than the {expected:.0f} to be expected"
    return "sudden_change", message, "look for an attack, a new client, or a change of rules"


def _silent_guard(
    guard: tuple[str, str], period: _CountPeriod, limits: GuardThresholds
) -> _WarningText:
    if guard in period.heard or period.runs[guard] < limits.silent_runs:
        return None
    message = f"never spoke in {period.runs[guard]} runs"
    return "never_fires", message, "see whether it is given what it should look at"


def _failing_guard(guard: tuple[str, str], period: _CountPeriod) -> _WarningText:
    failures = period.count_failures(guard)
    if not failures:
        return None
    runs = period.runs[guard]
    message = f"gave no verdict {failures} times" + (f" in {runs} runs" if runs else "")
    return "failures", message, "the log says why; raise its timeout, or repair it"


def _report_lines(report: GuardReport) -> Iterator[str]:
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
