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
from demur.gate.guard_report import (
    HOUR_S,
    ActivationKey,
    GuardReport,
    GuardThresholds,
    build_guard_report,
)
from demur.gate.preview import preview_text

__all__ = ["GuardrailMonitor"]

# Further kinds of activations in an hour are counted together.
_MAX_KINDS = 2000
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
        thresholds: GuardThresholds | None = None,
        max_hours: int = 24 * 62,
        max_recent: int = 1000,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._clock = clock
        self._thresholds = GuardThresholds() if thresholds is None else thresholds
        self._most_hours = max_hours
        self._recent: deque[Activation] = deque(maxlen=max_recent)
        # By the number of the hour since 1970.
        self._hours: dict[int, Counter[ActivationKey]] = {}
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
                code=_parse_code(reason),
                action=action.lower(),
                preview=preview_text(user_input),
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
        return build_guard_report(hours, now=self._clock(), days=days, thresholds=self._thresholds)

    def _count_activation(self, activation: Activation) -> None:
        counted = ActivationKey(
            activation.surface, activation.guard, activation.code, activation.action
        )
        self._add_count(activation.time, counted)
        self._recent.append(activation)

    def _add_count(self, moment: datetime, counted: ActivationKey) -> None:
        counts = self._counts_of_hour(moment)
        if counted not in counts and len(counts) >= _MAX_KINDS:
            counted = ActivationKey(_OTHERS, _OTHERS, counted.code and "", counted.action)
        counts[counted] += 1

    def _counts_of_hour(self, moment: datetime) -> Counter[ActivationKey]:
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        hour = int(aware.timestamp() // HOUR_S)
        counts = self._hours.get(hour)
        if counts is None:
            counts = self._hours[hour] = Counter()
            while len(self._hours) > self._most_hours:
                del self._hours[min(self._hours)]
        return counts

    def _write_activation(self, activation: Activation) -> None:
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


def _parse_code(reason: str) -> str:
    """Return the code of a reason; empty if there is none."""
    said = parse_refusal(reason) or parse_refusal(f"REFUSED: {reason}")
    return "" if said is None else str(said.code)


def _read_activations(path: Path) -> Iterator[Activation]:
    """Yield the activations in a file; incomplete lines are skipped."""
    decoder = msgspec.json.Decoder(Activation)
    try:
        with path.open("rb") as file:
            yield from _decode_lines(file, decoder)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot read the activations: {reason}", where=str(path)) from error


def _decode_lines(
    lines: Iterable[bytes], decoder: "msgspec.json.Decoder[Activation]"
) -> Iterator[Activation]:
    for line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, ValueError):
            continue
