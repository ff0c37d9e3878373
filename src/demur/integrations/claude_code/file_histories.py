"""Histories of tool calls in files: each hook is a process of its own, and the next must know.

One file for each run, named by a digest, readable by its owner alone. A file that cannot be
read back counts as none: whoever may write there can also delete it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from demur.guards.tool_loop.history import RecordedCall, CallHistory

if sys.platform != "win32":
    import fcntl

__all__ = ["FileHistories"]

_MAX_RUNS = 500
_MAX_HISTORY_BYTES = 4_000_000
_MAX_RESULT_LENGTH = 8_000
_FOLDER_MODE = 0o700
_decode_history = msgspec.json.Decoder(CallHistory).decode
_encode_history = msgspec.json.encode


class FileHistories:
    """Histories of runs in `folder`; above `max_runs`, the oldest are dropped."""

    def __init__(
        self, folder: Path, *, max_runs: int = _MAX_RUNS, max_bytes: int = _MAX_HISTORY_BYTES
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
        with os.fdopen(handle, "wb") as file:
            file.write(self._encode_bounded(history))
        new.replace(path)
        if is_first:
            self._drop_oldest()

    def _encode_bounded(self, history: CallHistory) -> bytes:
        """Return the encoded history: long results are cut, and the oldest calls only counted."""
        # INVARIANT: a stored history never exceeds the limit, and its counts are complete.
        kept = msgspec.structs.replace(history, calls=tuple(map(_cut_result, history.calls)))
        encoded = _encode_history(kept)
        while len(encoded) > self._max_bytes and kept.calls:
            earlier = kept.earlier.with_call(kept.calls[0])
            kept = CallHistory(calls=kept.calls[1:], earlier=earlier)
            encoded = _encode_history(kept)
        return encoded

    def _drop_oldest(self) -> None:
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[: -self._max_runs]:
            file.unlink(missing_ok=True)


def _cut_result(call: RecordedCall) -> RecordedCall:
    result = call.result
    if isinstance(result, str) and len(result) > _MAX_RESULT_LENGTH:
        return msgspec.structs.replace(call, result=result[:_MAX_RESULT_LENGTH])
    return call


def _read_history(path: Path) -> CallHistory:
    try:
        return _decode_history(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return CallHistory()
