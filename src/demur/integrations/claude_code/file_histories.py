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

from demur.guards.tool_loop.history import Call, History

if sys.platform != "win32":
    import fcntl

__all__ = ["FileHistories"]

_MOST_RUNS = 500
_LARGEST = 4_000_000
_LONGEST_RESULT = 8_000
_OWNER_ONLY = 0o700
_decode = msgspec.json.Decoder(History).decode
_encode = msgspec.json.encode


class FileHistories:
    """Histories of runs in `folder`; above `max_runs`, the oldest are dropped."""

    def __init__(self, folder: Path, *, most: int = _MOST_RUNS, largest: int = _LARGEST) -> None:
        self._folder = folder
        self._most = most
        self._largest = largest

    def update(self, run: str, change: Callable[[History], History]) -> History:
        """Apply `change` to the history of a run, store it, and return it.

        Raises:
            OSError: It cannot be stored.
        """
        self._folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        path = self._folder / f"{sha256(run.encode('utf-8', 'surrogatepass')).hexdigest()}.json"
        with self._locked():
            history = change(_read(path))
            self._write(path, history)
        return history

    @contextmanager
    def _locked(self) -> Iterator[None]:
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, path: Path, history: History) -> None:
        new = path.with_suffix(".new")
        is_first = not path.exists()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(self._bounded(history))
        new.replace(path)
        if is_first:
            self._drop_oldest()

    def _bounded(self, history: History) -> bytes:
        """Return the encoded history: long results are cut, and the oldest calls only counted."""
        # INVARIANT: a stored history never exceeds the limit, and its counts are complete.
        kept = msgspec.structs.replace(history, calls=tuple(map(_cut, history.calls)))
        encoded = _encode(kept)
        while len(encoded) > self._largest and kept.calls:
            earlier = kept.earlier.plus(kept.calls[0])
            kept = History(calls=kept.calls[1:], earlier=earlier)
            encoded = _encode(kept)
        return encoded

    def _drop_oldest(self) -> None:
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[: -self._most]:
            file.unlink(missing_ok=True)


def _cut(call: Call) -> Call:
    result = call.result
    if isinstance(result, str) and len(result) > _LONGEST_RESULT:
        return msgspec.structs.replace(call, result=result[:_LONGEST_RESULT])
    return call


def _read(path: Path) -> History:
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return History()
