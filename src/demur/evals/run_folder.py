"""The folder of a run: the rows it asks, in which order, the answers so far, and what is left."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import msgspec

from demur.errors import InputError, error_reason
from demur.evals.run_files import (
    LOCK_FILE,
    MANIFEST_FILE,
    AnswerFile,
    RunError,
    RunManifest,
    check_manifest,
    drop_torn_line,
    filter_answers,
    lock_folder,
    make_manifest,
    read_answers,
    read_manifest,
    write_manifest,
)
from demur.evals.suite import EvalSuite
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget, TargetAnswer
from demur.gate.clock import Clock, format_timestamp


def select_rows(
    rows: Sequence[EvalRow], *, seed: int | None, limit: int | None
) -> Sequence[EvalRow]:
    """Return the rows to ask: in the suite's order or sampled by `seed`, at most `limit`.

    A row and its twin are sampled together, so that both sides are equally represented.
    """
    if seed is None:
        return rows[:limit]

    def sample_key(row: EvalRow) -> tuple[bytes, str]:
        pair = f"{seed}\n{min(row.id, row.twin or row.id)}".encode(errors="replace")
        return hashlib.blake2b(pair, digest_size=16).digest(), row.id

    return sorted(rows, key=sample_key)[:limit]


ANSWERS_FILE = "answers.jsonl"
ROWS_FILE = "rows.jsonl"
# Files left by a run that was killed before its manifest was written.
_OWN_FILES = frozenset({ANSWERS_FILE, ROWS_FILE, LOCK_FILE, f"{MANIFEST_FILE}.new"})


class EvalRun(NamedTuple):
    """A run in its folder: its manifest, its rows, and its answers so far."""

    folder: Path
    manifest: RunManifest

    def iter_rows(self) -> Iterator[EvalRow]:
        """Yield the rows of the run one at a time."""
        path = self.folder / ROWS_FILE
        try:
            with path.open("rb") as file:
                for line in file:
                    yield _row_decoder.decode(line)
        except (OSError, msgspec.MsgspecError) as error:
            raise _unreadable(path, error) from error

    def iter_answers(self) -> Iterator[TargetAnswer]:
        """Yield the answers so far one at a time, in the order they came.

        Raises:
            RunError: They cannot be read.
        """
        return read_answers(self.folder / ANSWERS_FILE)

    @property
    def is_complete(self) -> bool:
        """Whether every row was asked."""
        return self.manifest.finished_at is not None


_row_decoder = msgspec.json.Decoder(EvalRow)


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot read the rows: {error_reason(error)}", where=str(path))


def open_run(path: Path | str) -> EvalRun:
    """Return the run in a folder, finished or not.

    Raises:
        RunError: There is none, or it is unreadable.
    """
    folder = Path(path)
    return EvalRun(folder, read_manifest(folder))


class PendingRun:
    """The rows that a run still has to ask, and its file of answers."""

    def __init__(
        self, run: EvalRun, rows: Sequence[EvalRow], done: frozenset[str], file: AnswerFile
    ) -> None:
        self.run, self.file = run, file
        self.total = len(rows)
        self.left = self.total - len(done)
        self.rows = iter(rows) if not done else (row for row in rows if row.id not in done)

    def finish_run(self, now: datetime) -> EvalRun:
        """Mark the run as finished, and return it."""
        manifest = msgspec.structs.replace(self.run.manifest, finished_at=format_timestamp(now))
        if self.run.manifest.finished_at is None or self.left:
            write_manifest(self.run.folder, manifest)
            return self.run._replace(manifest=manifest)
        return self.run


@contextlib.contextmanager
def begin_run(
    suite: EvalSuite,
    target: EvalTarget,
    folder: Path,
    *,
    limit: int | None,
    seed: int | None,
    clock: Clock,
) -> Iterator[PendingRun]:
    """Start or resume a run, and lock its folder while the body asks the pending rows."""
    if limit is not None and limit < 1:
        raise InputError(f"`limit` must be at least 1, not `{limit}`")
    rows = select_rows(suite.rows, seed=seed, limit=limit)
    now = format_timestamp(clock())
    manifest = make_manifest(suite, target, rows=len(rows), seed=seed, limit=limit, now=now)
    known = _find_manifest(folder, manifest)
    path = folder / ANSWERS_FILE
    with lock_folder(folder):
        done: frozenset[str] = frozenset()
        if known is None:
            path.unlink(missing_ok=True)
            with (folder / ROWS_FILE).open("wb") as file:
                file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
            write_manifest(folder, manifest)
        elif path.exists():
            drop_torn_line(path)
            answered = _read_answered(path)
            done = frozenset(row.id for row in rows if row.id in answered)
        with AnswerFile(path) as answers:
            yield PendingRun(EvalRun(folder, known or manifest), rows, done, answers)


def _find_manifest(folder: Path, manifest: RunManifest) -> RunManifest | None:
    """Return the manifest of a run to resume, or None for a new run."""
    if (folder / MANIFEST_FILE).exists():
        known = read_manifest(folder)
        check_manifest(folder, known, manifest)
        return known
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [path for path in folder.iterdir() if path.name not in _OWN_FILES]
    except OSError as error:
        problem = f"cannot make the run's folder: {error_reason(error)}"
        raise RunError(problem, where=str(folder)) from error
    if strangers:
        problem = "the folder is not empty and holds no run"
        raise RunError(problem, where=str(folder), help="give a new folder")
    return None


def _read_answered(path: Path) -> set[str]:
    """Return the ids of answered rows; answers with errors are removed from the file."""
    errors, answered = False, set[str]()
    for answer in read_answers(path):
        if answer.error is None:
            answered.add(answer.row_id)
        else:
            errors = True
    if errors:
        filter_answers(path, lambda answer: answer.error is None)
    return answered


class RowIndex:
    """Finds rows of a run by id; only their offsets are in memory. Close it, or use `with`."""

    def __init__(self, run: EvalRun) -> None:
        self._path = run.folder / ROWS_FILE
        try:
            self._file: BinaryIO = self._path.open("rb")
        except OSError as error:
            raise _unreadable(self._path, error) from error
        try:
            self._offsets: dict[str, int] = {}
            place = 0
            for line in self._file:
                self._offsets[self._decode_row(line).id] = place
                place += len(line)
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._offsets

    def __iter__(self) -> Iterator[EvalRow]:
        return (self._read_row(place) for place in self._offsets.values())

    def __getitem__(self, row_id: str) -> EvalRow:
        """Return the row with an id.

        Raises:
            RunError: The run has no such row.
        """
        place = self._offsets.get(row_id)
        if place is None:
            problem = f"there is an answer to `{row_id}`, which is not a row of this run"
            help_text = "do not mix the files of two runs"
            raise RunError(problem, where=str(self._path.parent), help=help_text)
        return self._read_row(place)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_row(self, place: int) -> EvalRow:
        self._file.seek(place)
        return self._decode_row(self._file.readline())

    def _decode_row(self, line: bytes) -> EvalRow:
        try:
            return _row_decoder.decode(line)
        except msgspec.MsgspecError as error:
            reason = str(error)[:1].lower() + str(error)[1:]
            raise RunError(f"not a row: {reason}", where=str(self._path)) from error
