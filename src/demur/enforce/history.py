"""Keep the tool calls of each run, so that the guard against tool loops can read them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Protocol

from msgspec.structs import replace

from demur.guards.tool_loop import CallHistory, RecordedCall

MAX_RUNS = 10_000
# Older calls do not count as part of a loop.
MAX_AGE_S = 600.0
_EMPTY_HISTORY = CallHistory()

HistoryChange = Callable[[CallHistory], CallHistory]


class CallHistories(Protocol):
    """Keeps one history of tool calls per run. Threads may share it."""

    def update(self, run: str, change: HistoryChange) -> CallHistory:
        """Apply `change` to the history of a run atomically, and return the new history."""


class LocalCallHistories:
    """Keeps histories in this process; above `max_runs`, drops the least recently used run."""

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._lock = Lock()
        self._runs: OrderedDict[str, CallHistory] = OrderedDict()

    def update(self, run: str, change: HistoryChange) -> CallHistory:
        """Apply `change` to the history of a run, and return the new history."""
        with self._lock:
            history = self._runs[run] = change(self._runs.get(run, _EMPTY_HISTORY))
            self._runs.move_to_end(run)
            while len(self._runs) > self._max_runs:
                self._runs.popitem(last=False)
        return history


def last_open_call(history: CallHistory, name: str, arguments: Any = None) -> RecordedCall | None:
    """Return the last call of that name (and arguments, if given) without a result."""
    call = None if arguments is None else RecordedCall(name=name, arguments=arguments)
    exact = None if call is None else call.exact_arguments
    opened = (one for one in reversed(history.calls) if one.result is None and not one.failed)
    same = (one for one in opened if one.name == name)
    return next((one for one in same if exact in {None, one.exact_arguments}), None)


def finish_call(
    history: CallHistory, call: RecordedCall, result: Any, *, failed: bool
) -> CallHistory:
    """Return the history with the result of one of its calls."""
    finished = replace(call, result=result, failed=failed)
    return replace(history, calls=tuple(finished if one is call else one for one in history.calls))


def drop_refused_tries(history: CallHistory, call: RecordedCall) -> CallHistory:
    """Return the history without refused tries of a call, because a grant allows it now."""
    kept = tuple(one for one in history.calls if not _was_refused(one, call))
    return replace(history, calls=kept)


def _was_refused(one: RecordedCall, call: RecordedCall) -> bool:
    same = (one.name, one.exact_arguments) == (call.name, call.exact_arguments)
    return same and one.failed and one.result is None


def start_new_round(history: CallHistory) -> CallHistory:
    """Return the history at the start of a new round; only its totals are kept."""
    return _move_to_earlier(history, lambda _: True)


def drop_old_calls(history: CallHistory, now_s: float) -> CallHistory:
    """Return the history without old calls; a call in the future is of another clock and old."""
    return _move_to_earlier(
        history, lambda call: call.at_s is None or not 0 <= now_s - call.at_s <= MAX_AGE_S
    )


def _move_to_earlier(history: CallHistory, past: Callable[[RecordedCall], bool]) -> CallHistory:
    earlier = history.earlier
    for call in history.calls:
        if past(call):
            earlier = earlier.with_call(call)
    return CallHistory(calls=tuple(one for one in history.calls if not past(one)), earlier=earlier)


def add_call(history: CallHistory, call: RecordedCall, *, granted: bool) -> CallHistory:
    """Return the history with one more call and without old ones.

    If the call is `granted` now, its refused tries make no loop.
    """
    recent = drop_old_calls(history, call.at_s or 0.0)
    return (drop_refused_tries(recent, call) if granted else recent).add(call)


def finish_last_call(
    histories: CallHistories,
    run: str | None,
    name: str,
    arguments: Mapping[str, Any] | None,
    result: str | None,
) -> Mapping[str, Any]:
    """Add the result of the last open call to the history of a run, and return its arguments.

    A call without a result was refused.
    """
    finished: list[RecordedCall] = []

    def record_result(history: CallHistory) -> CallHistory:
        call = last_open_call(history, name, arguments)
        if call is None:
            return history
        finished.append(call)
        return finish_call(history, call, result, failed=result is None)

    if run is not None:
        histories.update(run, record_result)
    return (finished[0].arguments if finished and arguments is None else arguments) or {}
