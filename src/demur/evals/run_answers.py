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

from demur.evals.answer import Answer, decode_answer, encode_answer
from demur.evals.run_manifest import RunError

if sys.platform != "win32":
    import fcntl

__all__ = ["LOCK", "AnswerFile", "drop_torn_line", "keep_answers", "locked", "read_answers"]

LOCK = "lock"

_BLOCK = 65_536


def read_answers(path: Path) -> Iterator[Answer]:
    """Yield the answers in a file, one in memory at a time; half a last line is left out.

    Raises:
        RunError: It cannot be read, or a line of it is no answer.
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
                raise RunError(f"no answer: {reason}", where=f"{path}:{number}") from error


def keep_answers(path: Path, keep: Callable[[Answer], bool]) -> None:
    """Write the file anew with the answers that are to be kept; all of it or nothing changes."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        for answer in read_answers(path):
            if keep(answer):
                file.write(encode_answer(answer) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run.

    Raises:
        RunError: One does already.
    """
    with (folder / LOCK).open("ab") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunError(
                    "another process is writing to this run",
                    where=str(folder),
                    help="wait for it, or give this one a folder of its own",
                ) from error
        yield


class AnswerFile:
    """The file, open to be appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._dirty = False

    def put(self, answer: Answer) -> None:
        """Append an answer; it outlives this process from now on.

        Raises:
            RunError: It cannot be written.
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
                help="what was written until then is kept; the same command goes on",
            ) from error
        self._dirty = True

    def sync(self) -> None:
        """Have everything on the disk that was put."""
        if self._dirty:
            self._dirty = False
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, with everything on the disk."""
        try:
            self.sync()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def drop_torn_line(path: Path) -> None:
    """Cut off a last line that has no end."""
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.truncate(_last_line_end(file, end))


def _last_line_end(file: BinaryIO, end: int) -> int:
    place = end
    while place:
        start = max(0, place - _BLOCK)
        file.seek(start)
        found = file.read(place - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return 0
