"""Keep the tool calls of each run, without secrets, for the guard against tool loops."""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from demur.gate.redaction import blot_secrets
from demur.guards.tool_loop import CallHistory, RecordedCall

if sys.platform != "win32":
    import fcntl

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
    exact = None
    if arguments is not None:
        exact = RecordedCall(name=name, arguments=blot_secrets(arguments)).exact_arguments
    opened = (one for one in reversed(history.calls) if one.result is None and not one.failed)
    same = (one for one in opened if one.name == name)
    return next((one for one in same if exact in {None, one.exact_arguments}), None)


def finish_call(
    history: CallHistory, call: RecordedCall, result: Any, *, failed: bool
) -> CallHistory:
    """Return the history with the result of one of its calls."""
    finished = replace(call, result=blot_secrets(result), failed=failed)
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
    # INVARIANT: a history of calls never contains a recognised secret.
    call = replace(call, arguments=blot_secrets(call.arguments))
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


_RUN_SEPARATOR = "\x1f"


def make_run_key(framework: str, tenant: str | None, subject: Any, run: str) -> str:
    """Return the key of a run's history: other tenants and subjects may use the same run name."""
    return _RUN_SEPARATOR.join(map(str, (framework, tenant, subject, run)))


class TenantHistories:
    """Histories of each tenant, so that no tenant makes demur forget the runs of another.

    `open_histories` opens those of a tenant, which are bounded by themselves.
    """

    def __init__(self, open_histories: Callable[[str], CallHistories]) -> None:
        self._open_histories = open_histories
        self._lock = Lock()
        self._tenants: dict[str, CallHistories] = {}

    def update(self, run: str, change: HistoryChange) -> CallHistory:
        """Apply `change` to the history of a run, and return the new history."""
        tenant = run.split(_RUN_SEPARATOR, 2)[1]
        with self._lock:
            if tenant not in self._tenants:
                self._tenants[tenant] = self._open_histories(tenant)
            histories = self._tenants[tenant]
        return histories.update(run, change)


_MAX_RUN_FILES = 500
_MAX_HISTORY_BYTES = 4_000_000
_MAX_TENANT_BYTES = 32_000_000
_MAX_RESULT_LENGTH = 8_000
_FOLDER_MODE = 0o700
_decode_history = msgspec.json.Decoder(CallHistory).decode
_encode_history = msgspec.json.encode


class EncodedHistories:
    """Histories in this process, `max_bytes` in all: the least recently used runs are dropped."""

    def __init__(self, max_bytes: int = _MAX_TENANT_BYTES) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self._lock = Lock()
        self._runs: OrderedDict[str, bytes] = OrderedDict()

    def update(self, run: str, change: HistoryChange) -> CallHistory:
        """Apply `change` to the history of a run, and return the new history."""
        with self._lock:
            before = self._runs.get(run, b"")
            history = change(_decode_history(before) if before else _EMPTY_HISTORY)
            encoded = _encode_bounded(history, _MAX_HISTORY_BYTES)
            # INVARIANT: all histories together never exceed the limit.
            self.size += len(encoded) - len(before)
            self._runs[run] = encoded
            self._runs.move_to_end(run)
            while self.size > self._max_bytes:
                self.size -= len(self._runs.popitem(last=False)[1])
        return history


class FileHistories:
    """Histories of runs in `folder`; above `max_runs`, the oldest are dropped.

    There is one file for each run, named by a digest and readable by its owner alone. A file that
    cannot be read back counts as none.
    """

    def __init__(
        self, folder: Path, *, max_runs: int = _MAX_RUN_FILES, max_bytes: int = _MAX_HISTORY_BYTES
    ) -> None:
        self._folder = folder
        self._max_runs = max_runs
        self._max_bytes = max_bytes

    def update(self, run: str, change: Callable[[CallHistory], CallHistory]) -> CallHistory:
        """Apply `change` to the history of a run, store it, and return it.

        Raises:
            OSError: It cannot be stored.
        """
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / f"{sha256(run.encode('utf-8', 'surrogatepass')).hexdigest()}.json"
        with self._hold_lock():
            history = change(_read_history(path))
            self._write_history(path, history)
        return history

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write_history(self, path: Path, history: CallHistory) -> None:
        new = path.with_suffix(".new")
        is_first = not path.exists()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(_encode_bounded(history, self._max_bytes))
        new.replace(path)
        if is_first:
            files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
            for file in files[: -self._max_runs]:
                file.unlink(missing_ok=True)


def _encode_bounded(history: CallHistory, max_bytes: int) -> bytes:
    """Return the encoded history: long results are cut, and the oldest calls only counted."""
    # INVARIANT: a stored history never exceeds the limit, and its counts are complete.
    kept = replace(history, calls=tuple(map(_cut_result, history.calls)))
    encoded = _encode_history(kept)
    while len(encoded) > max_bytes and kept.calls:
        earlier = kept.earlier.with_call(kept.calls[0])
        kept = CallHistory(calls=kept.calls[1:], earlier=earlier)
        encoded = _encode_history(kept)
    return encoded


def _cut_result(call: RecordedCall) -> RecordedCall:
    result = call.result
    if isinstance(result, str) and len(result) > _MAX_RESULT_LENGTH:
        return replace(call, result=result[:_MAX_RESULT_LENGTH])
    return call


def _read_history(path: Path) -> CallHistory:
    try:
        return _decode_history(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return CallHistory()
