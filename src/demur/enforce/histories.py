"""Histories of tool calls by run: the input of the guard against tool loops."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from msgspec.structs import replace

from demur.guards.tool_loop.history import Call, History

__all__ = [
    "LONG_S",
    "MOST_RUNS",
    "Histories",
    "LocalHistories",
    "aged",
    "begun_anew",
    "finished",
    "last_open",
    "without_refused",
]

MOST_RUNS = 10_000
# Older calls do not count as part of a loop.
LONG_S = 600.0
_NONE = History()

Change = Callable[[History], History]


class Histories(Protocol):
    """Keeps a history for each run. Safe to share between threads."""

    def update(self, run: str, change: Change) -> History:
        """Apply `change` to the history of a run atomically, and return the new history."""


class LocalHistories:
    """Histories in this process; above `max_runs`, the least recently used runs are dropped."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._lock = Lock()
        self._runs: OrderedDict[str, History] = OrderedDict()

    def update(self, run: str, change: Change) -> History:
        """Apply `change` to the history of a run, and return the new history."""
        with self._lock:
            history = self._runs[run] = change(self._runs.get(run, _NONE))
            self._runs.move_to_end(run)
            while len(self._runs) > self._most:
                self._runs.popitem(last=False)
        return history


def last_open(history: History, name: str, arguments: Any = None) -> Call | None:
    """Return the last call of that name (and arguments, if given) without a result."""
    wanted = None if arguments is None else Call(name=name, arguments=arguments).exact
    for call in reversed(history.calls):
        is_open = call.result is None and not call.failed
        if is_open and call.name == name and wanted in {None, call.exact}:
            return call
    return None


def finished(history: History, call: Call, result: Any, *, failed: bool) -> History:
    """Return the history with the result of one of its calls."""
    calls = tuple(
        replace(one, result=result, failed=failed) if one is call else one for one in history.calls
    )
    return replace(history, calls=calls)


def without_refused(history: History, call: Call) -> History:
    """Return the history without refused tries of a call, because a grant allows it now."""
    kept = tuple(one for one in history.calls if not _was_refused(one, call))
    return replace(history, calls=kept)


def _was_refused(one: Call, call: Call) -> bool:
    same = (one.name, one.exact) == (call.name, call.exact)
    return same and one.failed and one.result is None


def begun_anew(history: History) -> History:
    """Return the history at the start of a new round; only its totals are kept."""
    return _without(history, lambda _: True)


def aged(history: History, now_s: float) -> History:
    """Return the history without old calls; a call in the future is of another clock and old."""
    return _without(history, lambda call: call.at_s is None or not 0 <= now_s - call.at_s <= LONG_S)


def _without(history: History, past: Callable[[Call], bool]) -> History:
    earlier = history.earlier
    for call in history.calls:
        if past(call):
            earlier = earlier.plus(call)
    return History(calls=tuple(one for one in history.calls if not past(one)), earlier=earlier)
