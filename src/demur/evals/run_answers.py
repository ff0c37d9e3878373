"""The file of a run's answers: appended to, read line by line, and sound after a kill.

An answer is with the operating system before the next row is asked, and on the disk within
about a second. A line that a crash tore off is dropped when the run goes on.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from demur.evals.answer import TargetAnswer, decode_answer, encode_answer
from demur.evals.run_manifest import RunError

if sys.platform != "win32":
    import fcntl

__all__ = [
    "LOCK_FILE",
    "AnswerFile",
    "drop_torn_line",
    "filter_answers",
    "lock_folder",
    "read_answers",
]

LOCK_FILE = "lock"

_BLOCK_SIZE = 65_536


def read_answers(path: Path) -> Iterator[TargetAnswer]:
    """Yield the answers in a file one at a time; an incomplete last line is left out.

    Raises:
        RunError: A line is not an answer.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decode_answer(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                reason = str(error)[:1].lower() + str(error)[1:]
                raise RunError(f"not an answer: {reason}", where=f"{path}:{number}") from error


def filter_answers(path: Path, keep: Callable[[TargetAnswer], bool]) -> None:
    """Rewrite the file atomically with the answers to keep."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        for answer in read_answers(path):
            if keep(answer):
                file.write(encode_answer(answer) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run's folder against other processes.

    Raises:
        RunError: Another process holds the lock.
    """
    with (folder / LOCK_FILE).open("ab") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunError(
                    "another process is writing to this run",
                    where=str(folder),
                    help="wait for it, or use another folder",
                ) from error
        yield


class AnswerFile:
    """The file of answers, open for appending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._dirty = False

    def append_answer(self, answer: TargetAnswer) -> None:
        """Append an answer, which then survives the end of this process.

        Raises:
            RunError: The answer cannot be written.
        """
        line = memoryview(encode_answer(answer) + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            reason = str(error.strerror or error).lower()
            raise RunError(
                f"cannot write: {reason}",
                where=str(self.path),
                help="earlier answers are kept; resume with the same command",
            ) from error
        self._dirty = True

    def sync(self) -> None:
        """Flush all appended answers to the disk."""
        if self._dirty:
            self._dirty = False
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush the answers to the disk, and close the file."""
        try:
            self.sync()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line."""
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.truncate(_last_line_end(file, end))


def _last_line_end(file: BinaryIO, end: int) -> int:
    place = end
    while place:
        start = max(0, place - _BLOCK_SIZE)
        file.seek(start)
        found = file.read(place - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return 0
