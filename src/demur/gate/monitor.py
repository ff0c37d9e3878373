"""`GuardrailMonitor`: count what guards do, and report where it looks wrong.

Counts are kept by hour, so memory does not grow with traffic. Only the newest activations are kept
in memory; a file, if one is named, gets all of them. Nothing here decides.
"""

import logging
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import log2, sqrt
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import astuple

from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import parse_refusal
from demur.errors import InputError, InputTypeError, error_reason
from demur.gate.clock import Clock, format_timestamp, system_clock
from demur.guards.personal_data import personal_data_search
from demur.guards.secret_formats import FORMATTED_SECRETS, PRIVATE_KEYS
from demur.guards.secret_values import ASSIGNED_SECRETS, LOOSE_SECRETS
from demur.model.finding import Action, Span
from demur.store.rows import FindingTally
from demur.store.spool import create_private_file


class Activation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding of a guard: time, surface, code, requested action and duration.

    `preview` is a short piece of the text without secrets. `note` says why a guard gave no
    verdict; without a code, it is the reason that no code stands for.
    """

    time: datetime
    surface: str
    guard: str
    code: str
    action: str
    preview: str = ""
    milliseconds: float = 0.0
    shadow: bool = False
    note: str = ""


class Monitor(Protocol):
    """Receives what guards do. demur logs an error that it raises; it changes nothing."""

    def record(self, activation: Activation) -> None:
        """Record an activation."""

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard, with the strictest action that it asked for."""


HOUR_S = 3600
_DAY = timedelta(days=1)
_STOPS = (Action.BLOCK, Action.ESCALATE)
_FAILURES = (ReasonCode.GUARDRAIL_UNAVAILABLE, ReasonCode.GUARDRAIL_PARTIAL)


class ActivationKey(NamedTuple):
    """The key of a count: activations by code, or, without a code, runs by action.

    Activations in shadow are counted apart, because they bind nobody.
    """

    surface: str
    guard: str
    code: str | None = None
    action: str = ""
    shadow: bool = False


class GuardThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits above which the report warns.

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


class GuardSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What one guard did: its runs, what it found, how often it failed, and how long it took.

    `findings` leaves out those in shadow. `p50_ms` and `p95_ms` are within a tenth of the
    measured times; None without a measured run.
    """

    surface: str
    guard: str
    runs: int
    findings: int
    stopped: int
    shadow: int
    failures: int
    p50_ms: float | None
    p95_ms: float | None
    codes: Mapping[str, int]
    shadow_codes: Mapping[str, int]


class GuardReport(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of guards. `str()` of it is the text for people.

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
    daily: tuple[GuardReportDay, ...]
    trend: float | None
    warnings: tuple[GuardWarning, ...]
    guards: tuple[GuardSummary, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_report_lines(self))


class _CountPeriod:
    """The sum of the counts of some hours."""

    def __init__(self, hours: Iterable[Mapping[ActivationKey, int]]) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()
        self.stopped_runs: Counter[tuple[str, str]] = Counter()
        self.spoken: Counter[ActivationKey] = Counter()
        self.active: set[tuple[str, str]] = set()
        for counts in hours:
            for counted, count in counts.items():
                self._add_count(counted, count)

    def _add_count(self, counted: ActivationKey, count: int) -> None:
        if counted.code is not None:
            self.spoken[counted] += count
            self.active.add(counted[:2])
            return
        self.runs[counted[:2]] += count
        if counted.action:
            self.active.add(counted[:2])
        if counted.action in _STOPS:
            self.stopped_runs[counted[:2]] += count

    @property
    def total(self) -> int:
        return self.spoken.total()

    @property
    def guards(self) -> list[tuple[str, str]]:
        return sorted({*self.runs, *self.active})

    def count_stopped(self, guard: tuple[str, str] | None = None) -> int:
        """Return the number of stops: of runs where they are counted, else of findings."""
        if guard is None:
            return sum(map(self.count_stopped, self.guards))
        if self.runs[guard]:
            return self.stopped_runs[guard]
        return sum(
            count
            for key, count in self.spoken.items()
            if key.action in _STOPS and key[:2] == guard and not key.shadow
        )

    def count_codes(self, guard: tuple[str, str], *, shadow: bool) -> dict[str, int]:
        """Return the activations of a guard by code, most frequent first."""
        counts: Counter[str] = Counter()
        for key, count in self.spoken.items():
            if key[:2] == guard and key.shadow == shadow:
                counts[key.code or "unknown"] += count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def count_by(self, field: str) -> dict[str, int]:
        """Return the activations by a field of their key, most frequent first."""
        counts: Counter[str] = Counter()
        for counted, count in self.spoken.items():
            counts[getattr(counted, field) or "unknown"] += count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def count_failures(self, guard: tuple[str, str] | None = None) -> int:
        failures = ((key[:2], count) for key, count in self.spoken.items() if key.code in _FAILURES)
        return sum(count for name, count in failures if guard in {None, name})


_Hours = Mapping[int, Mapping[ActivationKey, int]]
# A bucket of durations is a twelfth of a doubling wide, which is six percent.
_BUCKETS_PER_DOUBLING = 12


class _DurationKey(NamedTuple):
    """The key of a count of durations: the guard, and the bucket of its time."""

    surface: str
    guard: str
    bucket: int


_Durations = Mapping[int, Mapping[_DurationKey, int]]
_NO_DURATIONS: _Durations = {}


def build_guard_report(
    hours: _Hours,
    *,
    now: datetime,
    days: float,
    thresholds: GuardThresholds,
    durations: _Durations = _NO_DURATIONS,
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
        guards=tuple(_summarize_guards(period, _durations_between(durations, now - span, now))),
    )


def _summarize_guards(
    period: _CountPeriod, durations: Mapping[tuple[str, str], Counter[int]]
) -> Iterator[GuardSummary]:
    for guard in period.guards:
        codes = period.count_codes(guard, shadow=False)
        shadow_codes = period.count_codes(guard, shadow=True)
        taken = durations.get(guard, Counter[int]())
        yield GuardSummary(
            surface=guard[0],
            guard=guard[1],
            runs=period.runs[guard],
            findings=sum(codes.values()),
            stopped=period.count_stopped(guard),
            shadow=sum(shadow_codes.values()),
            failures=period.count_failures(guard),
            p50_ms=_find_quantile(taken, 0.5),
            p95_ms=_find_quantile(taken, 0.95),
            codes=codes,
            shadow_codes=shadow_codes,
        )


def _durations_between(
    durations: _Durations, since: datetime, until: datetime
) -> Mapping[tuple[str, str], Counter[int]]:
    first, last = since.timestamp() / HOUR_S, until.timestamp() / HOUR_S
    sums: dict[tuple[str, str], Counter[int]] = {}
    for hour, counts in durations.items():
        if first < hour <= last:
            for key, count in counts.items():
                sums.setdefault((key.surface, key.guard), Counter())[key.bucket] += count
    return sums


def _duration_bucket(seconds: float) -> int:
    """Return the bucket of a duration; all below a microsecond share one."""
    return round(_BUCKETS_PER_DOUBLING * log2(max(seconds * 1e6, 1.0)))


def _find_quantile(buckets: Counter[int], share: float) -> float | None:
    """Return the milliseconds below which a share of the durations lies."""
    left = share * buckets.total()
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 0:
            return float(f"{2 ** (bucket / _BUCKETS_PER_DOUBLING) / 1000:.2g}")
    return None


def count_findings(tallies: Iterable[FindingTally]) -> dict[int, Counter[ActivationKey]]:
    """Return findings that a store counted, by the hour since 1970, for a report.

    The store does not know which guard found something; the surface takes its place.
    """
    hours: dict[int, Counter[ActivationKey]] = {}
    for tally in tallies:
        moment = datetime.fromisoformat(f"{tally.hour}:00:00+00:00")
        key = ActivationKey(tally.surface, tally.surface, tally.code, tally.action)
        hours.setdefault(int(moment.timestamp()) // HOUR_S, Counter())[key] += tally.number
    return hours


def _period_between(hours: _Hours, since: datetime, until: datetime) -> _CountPeriod:
    # An hour belongs to the period in which it begins, so that none counts twice.
    first, last = since.timestamp() / HOUR_S, until.timestamp() / HOUR_S
    return _CountPeriod(counts for hour, counts in hours.items() if first < hour <= last)


def _daily_counts(hours: _Hours, now: datetime, days: float) -> Iterator[GuardReportDay]:
    for back in range(min(round(days), 366) - 1, -1, -1):
        end = now - back * _DAY
        day, until = _period_between(hours, end - _DAY, end), format_timestamp(end)
        yield GuardReportDay(until=until, activations=day.total, stopped=day.count_stopped())


def _find_warnings(
    period: _CountPeriod,
    hours: _Hours,
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
            _no_findings(guard, period, limits),
        ):
            if found is not None:
                (kind, text, hint), (surface, name) = found, guard
                yield GuardWarning(kind=kind, surface=surface, guard=name, message=text, help=hint)


_Guard = tuple[str, str]
_WarningText = tuple[str, str, str] | None


def _too_many(guard: _Guard, period: _CountPeriod, limits: GuardThresholds) -> _WarningText:
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


def _no_findings(guard: _Guard, period: _CountPeriod, limits: GuardThresholds) -> _WarningText:
    failures, runs = period.count_failures(guard), period.runs[guard]
    if failures:
        message = f"gave no verdict {failures} times" + (f" in {runs} runs" if runs else "")
        return "failures", message, "the log says why; raise its timeout, or repair it"
    if guard not in period.active and runs >= limits.silent_runs:
        message = f"never spoke in {runs} runs"
        return "never_fires", message, "see whether it is given what it should look at"
    return None


def _report_lines(report: GuardReport) -> Iterator[str]:
    day = "day" if report.days == 1 else "days"
    yield f"Guardrail report (last {report.days:g} {day})"
    runs = f" in {report.runs} runs" if report.runs else ""
    share = f" ({report.stopped / report.runs:.1%})" if report.runs >= report.stopped > 0 else ""
    yield f"Total activations: {report.total}{runs}, {report.stopped} stopped{share}"
    for label in ("surface", "action", "code"):
        if counts := getattr(report, f"by_{label}"):
            yield f"By {label}: {', '.join(f'{name} {n}' for name, n in counts.items())}"
    if report.trend is not None:
        yield f"Trend: {report.trend:g} times as many as in the {report.days:g} {day} before"
    for found in report.warnings:
        yield f"warning[{found.kind}] {found.surface}/{found.guard} {found.message}"
        yield f"  help: {found.help}"


# Further kinds of activations in an hour are counted together.
_MAX_KINDS = 2000
_MAX_DURATIONS = 20_000
_OTHERS = "others"
_Key = TypeVar("_Key", ActivationKey, _DurationKey)
UNMAPPED = "unmapped"
_log = logging.getLogger("demur")


class GuardrailMonitor:
    """Counts the activations of guards. Safe to share between threads.

    `path` is a file of JSON lines to which each activation is appended; its existing lines are
    counted too. `max_hours` of counts and `max_recent` activations are kept in memory.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        clock: Clock = system_clock,
        thresholds: GuardThresholds | None = None,
        max_hours: int = 24 * 62,
        max_recent: int = 1000,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._clock = clock
        self._thresholds = GuardThresholds() if thresholds is None else thresholds
        self._max_hours = max_hours
        self._recent: deque[Activation] = deque(maxlen=max_recent)
        # By the number of the hour since 1970.
        self._hours: dict[int, Counter[ActivationKey]] = {}
        self._durations: dict[int, Counter[_DurationKey]] = {}
        self._lock = Lock()
        self._writes = True
        if self._path is not None and self._path.exists():
            for activation in _read_activations(self._path):
                self._count_activation(activation)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The newest activations, oldest first."""
        with self._lock:
            return tuple(self._recent)

    def record(self, activation: Activation) -> None:
        """Record an activation."""
        with self._lock:
            self._count_activation(activation)
            self._write_activation(activation)

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard, with the strictest action that it asked for."""
        with self._lock:
            self._add_count(self._clock(), ActivationKey(surface, guard, None, action))

    def record_duration(self, surface: str, guard: str, seconds: float) -> None:
        """Record the duration of a guard's run."""
        key = _DurationKey(surface, guard, _duration_bucket(seconds))
        with self._lock:
            counts = self._hour_counts(self._durations, self._clock())
            if key not in counts and len(counts) >= _MAX_DURATIONS:
                key = _DurationKey(_OTHERS, _OTHERS, key.bucket)
            counts[key] += 1

    def log(
        self,
        guardrail_type: str,
        action: str,
        reason: str,
        user_input: str,
        timestamp: datetime | str | None = None,
    ) -> None:
        """Record an activation of a guard outside of demur.

        `reason` is a code, a refusal line or a phrase that the registry knows; any other text is
        counted as `unmapped` under its own words. `timestamp` may be ISO text; without an offset it
        is in UTC. Only short previews of `user_input` and of an unmapped `reason` are kept.

        Raises:
            InputError: The timestamp is no time.
            InputTypeError: An argument has the wrong type.
        """
        texts = {"guardrail_type": guardrail_type, "action": action, "reason": reason}
        for name, text in {**texts, "user_input": user_input}.items():
            if not isinstance(text, str):
                raise InputTypeError.wrong_type(name, "a string", text)
        parsed = parse_refusal(reason) or parse_refusal(f"REFUSED: {reason}")
        self.record(
            Activation(
                time=self._clock() if timestamp is None else _parse_timestamp(timestamp),
                surface=guardrail_type,
                guard=guardrail_type,
                code="" if parsed is None else str(parsed.code),
                action=action.lower(),
                preview=preview_text(user_input),
                note=preview_text(reason) if parsed is None else "",
            )
        )

    def report(self, days: float = 7) -> GuardReport:
        """Return the report on the last `days`, with warnings.

        Raises:
            InputError: `days` is out of range.
        """
        if not 0 < days <= 36_500:
            raise InputError(f"cannot report on {days:g} days", where="days")
        with self._lock:
            hours = {hour: dict(counts) for hour, counts in self._hours.items()}
            durations = {hour: dict(counts) for hour, counts in self._durations.items()}
        return build_guard_report(
            hours,
            now=self._clock(),
            days=days,
            thresholds=self._thresholds,
            durations=durations,
        )

    def _count_activation(self, activation: Activation) -> None:
        surface, guard, code, action = astuple(activation)[1:5]
        if not code and activation.note:
            code = f"{UNMAPPED}: {activation.note}"
        key = ActivationKey(surface, guard, code, action, activation.shadow)
        self._add_count(activation.time, key)
        self._recent.append(activation)

    def _add_count(self, moment: datetime, counted: ActivationKey) -> None:
        counts = self._hour_counts(self._hours, moment)
        if counted not in counts and len(counts) >= _MAX_KINDS:
            code = counted.code and ""
            counted = counted._replace(surface=_OTHERS, guard=_OTHERS, code=code)
        counts[counted] += 1

    def _hour_counts(self, hours: dict[int, Counter[_Key]], moment: datetime) -> Counter[_Key]:
        """Return the counts of the hour of a moment, after the oldest hours were dropped."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        counts = hours.setdefault(int(aware.timestamp() // HOUR_S), Counter())
        while len(hours) > self._max_hours:
            del hours[min(hours)]
        return counts

    def _write_activation(self, activation: Activation) -> None:
        if self._path is None:
            return
        try:
            # Open it each time, so that log rotation works.
            if not self._path.exists():
                with suppress(FileExistsError):
                    create_private_file(self._path)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(activation) + b"\n")
        except OSError as error:
            if self._writes:
                _log.warning("cannot write activations: %s", error.strerror or error)
            self._writes = False
        else:
            self._writes = True


def _parse_timestamp(timestamp: datetime | str) -> datetime:
    if isinstance(timestamp, datetime):
        return timestamp
    if not isinstance(timestamp, str):
        raise InputTypeError.wrong_type("timestamp", "a datetime or ISO text", timestamp)
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        help_text = "like `2027-01-31T12:00:00Z`, or a datetime"
        problem = f"cannot read `{timestamp}` as a time"
        raise InputError(problem, where="timestamp", help=help_text) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _read_activations(path: Path) -> Iterator[Activation]:
    """Yield the activations in a file; incomplete lines are skipped."""
    decoder = msgspec.json.Decoder(Activation)
    try:
        with path.open("rb") as file:
            for line in file:
                with suppress(msgspec.DecodeError, ValueError):
                    yield decoder.decode(line)
    except OSError as error:
        problem = f"cannot read the activations: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error


MAX_PREVIEW_LENGTH = 80

_REMOVED = "[removed]"
_SECRETS = (FORMATTED_SECRETS, PRIVATE_KEYS, ASSIGNED_SECRETS, LOOSE_SECRETS)
_SECRET_SEARCHES = (*_SECRETS, personal_data_search(Action.WARN))
# Show some text before a finding as context.
_PREVIEW_BEFORE = 20
# Look at more text than is shown, to recognise a secret that the cut would split.
_PREVIEW_MARGIN = 400
# Mail addresses, phone numbers and long words with digits are always hidden.
_PERSONAL = re.compile(
    r"[^\s@]{1,64}@[^\s@]{1,255}|\+?\d[\d ().-]{5,30}\d"
    r"|(?<![\w+/-])(?=[\w+/-]{0,64}\d)[\w+/=-]{16,}"
)


def preview_text(text: str | None, span: Span | None = None, *, hide: Iterable[Span] = ()) -> str:
    """Return a preview of `text` at `span`, or at its beginning, without the spans to `hide`.

    It has at most `MAX_PREVIEW_LENGTH` characters on one line, and nothing that looks like a
    credential, a card or account number, or a personal address.
    """
    if not text:
        return ""
    first = 0 if span is None else max(0, span.start - _PREVIEW_BEFORE)
    low, high = max(0, first - _PREVIEW_MARGIN), first + MAX_PREVIEW_LENGTH + _PREVIEW_MARGIN
    window = text[low:high]
    pieces: list[str] = []
    place = first - low
    secret = [(span.start - low, span.end - low) for span in hide if span.start < high]
    for search in _SECRET_SEARCHES:
        secret += [(match.start, match.end) for match in search.search(window, 0, True).matches]
    for start, end in sorted([*secret, *(found.span() for found in _PERSONAL.finditer(window))]):
        if end > place:
            pieces += [window[place : max(start, place)], _REMOVED]
            place = end
    shown = "".join([*pieces, window[place:]])
    line = "".join(character if character.isprintable() else " " for character in shown)
    more = len(line) > MAX_PREVIEW_LENGTH or high < len(text)
    return f"{line[: MAX_PREVIEW_LENGTH - 1]}…" if more else line
