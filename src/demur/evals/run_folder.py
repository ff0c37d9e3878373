"""The folder of a run: what was asked, what was answered so far, and what is left."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from demur.errors import InputError
from demur.evals.answer import Answer
from demur.evals.run_answers import (
    LOCK,
    AnswerFile,
    drop_torn_line,
    keep_answers,
    locked,
    read_answers,
)
from demur.evals.run_manifest import (
    MANIFEST,
    Manifest,
    RunError,
    check_same,
    make_manifest,
    read_manifest,
    write_manifest,
)
from demur.evals.run_order import ordered
from demur.evals.suite import Suite
from demur.evals.suite_row import Row
from demur.evals.target import Target
from demur.gate.clock import Clock, timestamp

__all__ = ["ANSWERS", "ROWS", "Run", "Work", "begin", "open_run"]

ANSWERS = "answers.jsonl"
ROWS = "rows.jsonl"
# Files left by a run that was killed before its manifest was written.
_OURS = frozenset({ANSWERS, ROWS, LOCK, f"{MANIFEST}.new"})


class Run(NamedTuple):
    """A run in its folder: its manifest, its rows, and its answers so far."""

    folder: Path
    manifest: Manifest

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the run one at a time."""
        path = self.folder / ROWS
        try:
            with path.open("rb") as file:
                for line in file:
                    yield _row_decoder.decode(line)
        except (OSError, msgspec.MsgspecError) as error:
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise RunError(f"cannot read the rows: {reason}", where=str(path)) from error

    def answers(self) -> Iterator[Answer]:
        """Yield the answers so far one at a time, in the order they came.

        Raises:
            RunError: They cannot be read.
        """
        return read_answers(self.folder / ANSWERS)

    @property
    def complete(self) -> bool:
        """Whether every row was asked."""
        return self.manifest.finished_at is not None


_row_decoder = msgspec.json.Decoder(Row)


def open_run(path: Path | str) -> Run:
    """Return the run in a folder, finished or not.

    Raises:
        RunError: There is none, or it cannot be read.
    """
    folder = Path(path)
    return Run(folder, read_manifest(folder))


class Work:
    """The rows that a run still has to ask, and its file of answers."""

    def __init__(
        self, run: Run, rows: Sequence[Row], done: frozenset[str], file: AnswerFile
    ) -> None:
        self.run = run
        self.file = file
        self.total = len(rows)
        self.left = self.total - len(done)
        self.rows = iter(rows) if not done else (row for row in rows if row.id not in done)

    def finished(self, now: datetime) -> Run:
        """Mark the run as finished, and return it."""
        manifest = msgspec.structs.replace(self.run.manifest, finished_at=timestamp(now))
        if self.run.manifest.finished_at is None or self.left:
            write_manifest(self.run.folder, manifest)
            return self.run._replace(manifest=manifest)
        return self.run


@contextlib.contextmanager
def begin(
    suite: Suite,
    target: Target,
    folder: Path,
    *,
    limit: int | None,
    seed: int | None,
    clock: Clock,
) -> Iterator[Work]:
    """Start or resume a run, and lock its folder while the body asks the pending rows."""
    if limit is not None and limit < 1:
        raise InputError(f"`limit` must be at least 1, not `{limit}`")
    rows = ordered(suite.rows, seed=seed, limit=limit)
    wanted = make_manifest(
        suite, target, rows=len(rows), seed=seed, limit=limit, now=timestamp(clock())
    )
    known = _known(folder, wanted)
    path = folder / ANSWERS
    with locked(folder):
        done: frozenset[str] = frozenset()
        if known is None:
            path.unlink(missing_ok=True)
            _write_rows(folder / ROWS, rows)
            write_manifest(folder, wanted)
        elif path.exists():
            drop_torn_line(path)
            answered = _answered(path)
            done = frozenset(row.id for row in rows if row.id in answered)
        with AnswerFile(path) as file:
            yield Work(Run(folder, known or wanted), rows, done, file)


def _known(folder: Path, wanted: Manifest) -> Manifest | None:
    """Return the manifest of a run to resume, or None for a new run."""
    if (folder / MANIFEST).exists():
        known = read_manifest(folder)
        check_same(folder, known, wanted)
        return known
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [path for path in folder.iterdir() if path.name not in _OURS]
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise RunError(f"cannot make the run's folder: {reason}", where=str(folder)) from error
    if strangers:
        raise RunError(
            "the folder is not empty and holds no run", where=str(folder), help="give a new folder"
        )
    return None


def _answered(path: Path) -> set[str]:
    """Return the ids of answered rows; answers with errors are removed from the file."""
    errors = False
    answered: set[str] = set()
    for answer in read_answers(path):
        errors = errors or answer.error is not None
        if answer.error is None:
            answered.add(answer.row_id)
    if errors:
        keep_answers(path, lambda answer: answer.error is None)
    return answered


def _write_rows(path: Path, rows: Sequence[Row]) -> None:
    encode: Callable[[Row], bytes] = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for row in rows:
            file.write(encode(row) + b"\n")
