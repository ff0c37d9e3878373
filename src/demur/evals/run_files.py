"""The files of a run: its manifest, its answers, and the cache that runs share.

An answer reaches the operating system before the next row is asked, and the disk within about
a second. A line that a crash cut short is dropped when the run resumes. The cache never keeps
errors.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import msgspec

from demur.canonical import digest
from demur.errors import DemurError, error_reason
from demur.evals.line_files import replace_file, write_json
from demur.evals.suite import EvalSuite
from demur.evals.target import EvalTarget, TargetAnswer, decode_answer, encode_answer
from demur.version import __version__

MANIFEST_FILE = "run.json"


class RunError(DemurError, ValueError):
    """A run that cannot be read, started or resumed."""


class SuiteRef(msgspec.Struct, frozen=True, kw_only=True):
    """The suite of a run; the digest covers all its rows."""

    name: str
    version: str
    digest: str
    rows: int


class TargetRef(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a run and its settings, without secrets."""

    name: str
    settings: dict[str, Any]


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that identifies a run; `rows` is the number of rows it asks."""

    schema_version: Literal["eval_run.v1"] = "eval_run.v1"
    suite: SuiteRef
    target: TargetRef
    rows: int
    seed: int | None = None
    limit: int | None = None
    versions: dict[str, str]
    started_at: str
    finished_at: str | None = None


def make_manifest(
    suite: EvalSuite,
    target: EvalTarget,
    *,
    rows: int,
    seed: int | None,
    limit: int | None,
    now: str,
) -> RunManifest:
    """Return the manifest of a run that starts now."""
    # Round-trip through JSON, so that it equals the manifest that is read later.
    encoded = msgspec.json.encode({"name": target.name, "settings": dict(target.settings)})
    return RunManifest(
        suite=SuiteRef(
            name=suite.name, version=suite.version, digest=suite.digest, rows=len(suite.rows)
        ),
        target=msgspec.json.decode(encoded, type=TargetRef),
        rows=rows,
        seed=seed,
        limit=limit,
        versions={"demur": __version__, "python": platform.python_version()},
        started_at=now,
    )


def read_manifest(folder: Path) -> RunManifest:
    """Return the manifest in a run's folder.

    Raises:
        RunError: There is none, or it is unreadable.
    """
    path = folder / MANIFEST_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except (FileNotFoundError, NotADirectoryError) as error:
        help_text = "`demur eval run --out` makes one"
        raise RunError("the folder holds no run", where=str(folder), help=help_text) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise RunError(f"cannot read the run: {error_reason(error)}", where=str(path)) from error


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write the manifest atomically."""
    write_json(folder / MANIFEST_FILE, manifest, "the manifest", RunError)


def check_manifest(folder: Path, known: RunManifest, new: RunManifest) -> None:
    """Refuse to resume a run that was started with other settings.

    Raises:
        RunError: The suite, the target, the seed or the limit differs.
    """
    changed = list(_list_changes(known, new))
    if changed:
        problem = f"the run was started with other settings: {'; '.join(changed)}"
        help_text = "give this run another folder with --out"
        raise RunError(problem, where=str(folder), help=help_text)


def _list_changes(known: RunManifest, new: RunManifest) -> Iterator[str]:
    if known.suite.digest != new.suite.digest:
        was, now = (f"{one.name} {one.version}" for one in (known.suite, new.suite))
        yield f"suite `{was}`" + (", whose rows have changed" if was == now else f", now `{now}`")
    if known.target != new.target:
        old, other = known.target.settings, new.target.settings
        names = [name for name in sorted({*old, *other}) if old.get(name) != other.get(name)]
        which = f" in {', '.join(names)}" if names else ""
        yield f"target `{known.target.name}`, now `{new.target.name}`{which}"
    for name in ("seed", "limit"):
        was, now = getattr(known, name), getattr(new, name)
        if was != now:
            yield f"{name} `{was}`, now `{now}`"


if sys.platform != "win32":
    import fcntl


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
    with replace_file(path, "the answers", RunError) as file:
        for answer in read_answers(path):
            if keep(answer):
                file.write(encode_answer(answer) + b"\n")


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
                problem = "another process is writing to this run"
                help_text = "wait for it, or use another folder"
                raise RunError(problem, where=str(folder), help=help_text) from error
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
            problem = f"cannot write: {error_reason(error)}"
            help_text = "earlier answers are kept; resume with the same command"
            raise RunError(problem, where=str(self.path), help=help_text) from error
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
        file.truncate(_last_line_end(file, file.seek(0, os.SEEK_END)))


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


class AnswerCache:
    """The answers of one target to one suite, in a folder that runs share."""

    def __init__(self, folder: Path, manifest: RunManifest) -> None:
        suite, target = manifest.suite.digest, manifest.target
        key = digest({"suite": suite, "target": target.name, "settings": target.settings})
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{key.rpartition(':')[2]}.jsonl"
        self._answer_file = AnswerFile(path)
        drop_torn_line(path)
        self._offsets: dict[str, int] = {}
        self._file: BinaryIO = path.open("rb")
        place = 0
        for line in self._file:
            try:
                self._offsets[decode_answer(line).row_id] = place
            except (msgspec.MsgspecError, RecursionError):
                """Lines that are not answers are ignored."""
            place += len(line)

    def get_answer(self, row_id: str) -> TargetAnswer | None:
        """Return the cached answer to a row, or None."""
        place = self._offsets.get(row_id)
        if place is None:
            return None
        self._file.seek(place)
        return decode_answer(self._file.readline())

    def put_answer(self, answer: TargetAnswer) -> None:
        """Keep an answer, unless it is an error."""
        if answer.error is None:
            self._answer_file.append_answer(answer)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._answer_file.close()
