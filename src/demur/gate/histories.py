"""The histories of tool calls, by run: what the guard of tool loops looks back on."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from msgspec.structs import replace

from demur.guards.tool_loop.history import Call, History

__all__ = ["MOST_RUNS", "Histories", "LocalHistories", "finished"]

MOST_RUNS = 10_000
_NONE = History()

Change = Callable[[History], History]


class Histories(Protocol):
    """Keeps a history for each run. Safe to share between threads."""

    def update(self, run: str, change: Change) -> History:
        """Return the history of a run after `change`, which nobody else's change comes between."""


class LocalHistories:
    """Histories in this process; of more than `most` runs, those longest untouched are dropped."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._lock = Lock()
        self._runs: OrderedDict[str, History] = OrderedDict()

    def update(self, run: str, change: Change) -> History:
        """Return the history of a run after `change`."""
        with self._lock:
            history = change(self._runs.pop(run, _NONE))
            self._runs[run] = history
            while len(self._runs) > self._most:
                self._runs.popitem(last=False)
        return history


def finished(history: History, call: Call, result: Any, *, failed: bool) -> History:
    """Return the history with what came of a call: the last one like it that had no result."""
    for place in range(len(history.calls) - 1, -1, -1):
        one = history.calls[place]
        if one.result is None and one.name == call.name and one.exact == call.exact:
            done = replace(one, result=result, failed=failed)
            before, after = history.calls[:place], history.calls[place + 1 :]
            return replace(history, calls=(*before, done, *after))
    return history
