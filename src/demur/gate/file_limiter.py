"""A limiter whose counts are in a file, for processes of one machine that live only briefly."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from demur.errors import error_reason
from demur.gate.clock import system_clock
from demur.gate.rate import LimiterResult, LimiterUnavailableError, SecondsClock
from demur.guards.rate import RateLimit, RateState, RateUse, apply_limit

if sys.platform != "win32":
    import fcntl

_NEW = RateState()
_Counts = dict[str, dict[str, RateState]]


def _seconds() -> float:
    """Return the seconds that all processes of the machine agree on."""
    return system_clock().timestamp()


class FileLimiter:
    """Counts in the file `path`, which only its owner can read. Safe to share between processes.

    It keeps at most `max_keys` keys and drops those whose counts ran out; while there is no room,
    a new key is refused. `clock` gives the time of the machine in seconds.
    """

    blocking = True

    def __init__(
        self, path: Path, *, max_keys: int = 10_000, clock: SecondsClock = _seconds
    ) -> None:
        self._path = path
        self._max_keys = max_keys
        self._clock = clock

    def take_units(self, key: str, limits: Sequence[RateLimit], cost: int = 1) -> LimiterResult:
        """Return the use as each limit sees it; it is counted only if all limits admit it.

        Raises:
            LimiterUnavailableError: The file cannot be read or written.
        """
        # INVARIANT: processes that share a file admit no more together than one process would.
        try:
            with self._hold_lock():
                return self._take_units(key, limits, cost)
        except (OSError, ValueError) as error:
            reason = error_reason(error) if isinstance(error, OSError) else "it is damaged"
            problem = f"the counts in {self._path} cannot be used: {reason}"
            raise LimiterUnavailableError(problem, help="delete the file to count anew") from error

    def _take_units(self, key: str, limits: Sequence[RateLimit], cost: int) -> LimiterResult:
        counts, now = self._read(), self._clock()
        kept = counts.get(key, {})
        uses = tuple(
            RateUse(key=key, limit=one, cost=cost, now_s=now, state=kept.get(_name(one), _NEW))
            for one in limits
        )
        fills = [apply_limit(use.limit, use.state, now, cost) for use in uses]
        if not uses or not all(fill.admitted for fill in fills):
            return LimiterResult(uses, "file")
        if key not in counts and len(counts) >= self._max_keys:
            counts = {name: states for name, states in counts.items() if _has_counts(states, now)}
            if len(counts) >= self._max_keys:
                return LimiterResult(uses, "file", full=1.0)
        taken = {_name(one): fill.state for one, fill in zip(limits, fills, strict=True)}
        self._write({**counts, key: {**kept, **taken}})
        return LimiterResult(uses, "file")

    def close(self) -> None:
        """Keep the counts: other processes need them."""

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _read(self) -> _Counts:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Counts)
        except FileNotFoundError:
            return {}

    def _write(self, counts: _Counts) -> None:
        new = self._path.with_suffix(".new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.json.encode(counts))
        new.replace(self._path)


def _name(limit: RateLimit) -> str:
    return f"{limit.count} {limit.unit} in {limit.per_s:g} s, {limit.burst} at once"


def _has_counts(states: Mapping[str, RateState], now: float) -> bool:
    """Return whether a count may still matter: a limit that is unknown here drains in a day."""
    return any(state.level > 0 and now - state.at_s < 86_400 for state in states.values())
