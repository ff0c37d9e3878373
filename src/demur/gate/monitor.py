"""`GuardrailMonitor`: count what guards do, and report where it looks wrong.

Counts are kept by hour, so memory does not grow with traffic. Only the newest activations are
kept in memory; a file, if one is named, gets all of them.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec

from demur.codes.line import parse_refusal
from demur.errors import InputError
from demur.gate.activation import Activation
from demur.gate.clock import Clock, system_clock
from demur.gate.guard_report import HOUR_S, Counted, GuardReport, Thresholds, report_on
from demur.gate.preview import preview

__all__ = ["GuardrailMonitor"]

# Further kinds of activations in an hour are counted together.
_MOST_KINDS = 2000
_OTHERS = "others"
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
        thresholds: Thresholds | None = None,
        most_hours: int = 24 * 62,
        most_recent: int = 1000,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._clock = clock
        self._thresholds = Thresholds() if thresholds is None else thresholds
        self._most_hours = most_hours
        self._recent: deque[Activation] = deque(maxlen=most_recent)
        # By the number of the hour since 1970.
        self._hours: dict[int, Counter[Counted]] = {}
        self._lock = Lock()
        self._writes = True
        if self._path is not None and self._path.exists():
            for activation in _read(self._path):
                self._count(activation)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The newest activations, oldest first."""
        with self._lock:
            return tuple(self._recent)

    def record(self, activation: Activation) -> None:
        """Record an activation."""
        with self._lock:
            self._count(activation)
            self._write(activation)

    def ran(self, surface: str, guard: str, action: str = "") -> None:
        """Count a run of a guard, with the strictest action that it asked for."""
        with self._lock:
            self._add(self._clock(), Counted(surface, guard, None, action))

    def log(
        self,
        guardrail_type: str,
        action: str,
        reason: str,
        user_input: str,
        timestamp: datetime | None = None,
    ) -> None:
        """Record an activation of a guard outside of demur.

        `reason` is a code, a refusal line or a phrase that the registry knows. Only a short
        preview of `user_input` is kept.
        """
        self.record(
            Activation(
                time=self._clock() if timestamp is None else timestamp,
                surface=guardrail_type,
                guard=guardrail_type,
                code=_code_of(reason),
                action=action.lower(),
                preview=preview(user_input),
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
        return report_on(hours, now=self._clock(), days=days, thresholds=self._thresholds)

    def _count(self, activation: Activation) -> None:
        counted = Counted(activation.surface, activation.guard, activation.code, activation.action)
        self._add(activation.time, counted)
        self._recent.append(activation)

    def _add(self, moment: datetime, counted: Counted) -> None:
        counts = self._hour(moment)
        if counted not in counts and len(counts) >= _MOST_KINDS:
            counted = Counted(_OTHERS, _OTHERS, counted.code and "", counted.action)
        counts[counted] += 1

    def _hour(self, moment: datetime) -> Counter[Counted]:
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        hour = int(aware.timestamp() // HOUR_S)
        counts = self._hours.get(hour)
        if counts is None:
            counts = self._hours[hour] = Counter()
            while len(self._hours) > self._most_hours:
                del self._hours[min(self._hours)]
        return counts

    def _write(self, activation: Activation) -> None:
        if self._path is None:
            return
        try:
            # Open it each time, so that log rotation works.
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(activation) + b"\n")
        except OSError as error:
            if self._writes:
                _log.warning("cannot write activations: %s", error.strerror or error)
            self._writes = False
        else:
            self._writes = True


def _code_of(reason: str) -> str:
    """Return the code of a reason; empty if there is none."""
    said = parse_refusal(reason) or parse_refusal(f"REFUSED: {reason}")
    return "" if said is None else str(said.code)


def _read(path: Path) -> Iterator[Activation]:
    """Yield the activations in a file; incomplete lines are skipped."""
    decoder = msgspec.json.Decoder(Activation)
    try:
        with path.open("rb") as file:
            yield from _decoded(file, decoder)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot read the activations: {reason}", where=str(path)) from error


def _decoded(
    lines: Iterable[bytes], decoder: "msgspec.json.Decoder[Activation]"
) -> Iterator[Activation]:
    for line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, ValueError):
            continue
