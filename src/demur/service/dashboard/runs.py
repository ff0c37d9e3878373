"""Eval runs in a folder: found by safe names, and read within bounds.

A run may be under way, be torn or hold anything. It is copied to a temporary folder and reported
there; the report is cached until a file of the run changes. One broken run hides no other.
"""

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from time import monotonic
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError, one_line, shorten
from demur.evals.compare import RegressionResult, check_regression, compare_runs
from demur.evals.rates import EvalThresholds, Partials, ThresholdCheck
from demur.evals.report import REPORT_FILE, EvalReport, make_report
from demur.evals.run_files import MANIFEST_FILE
from demur.evals.run_folder import ANSWERS_FILE, ROWS_FILE, EvalRun, open_run
from demur.evals.score import AnswerScore, Outcome, is_wrong
from demur.evals.scoring import SCORES_FILE, SCORING_FILE, read_scores
from demur.evals.suite_row import EvalRow
from demur.evals.verdicts import JUDGE_FILE, LABELS_FILE
from demur.service.dashboard.frame import cached_result
from demur.service.problem import ProblemError, replace_surrogates
from demur.service.service import Service

T = TypeVar("T")
# Runs are often kept by suite and by model.
_MAX_DEPTH = 3
# A larger folder is hardly one of runs, and a page must not take long to list it.
_MAX_FOLDERS = 2_000
_MAX_ENTRIES = 20_000
_RUN_MARKERS = frozenset({MANIFEST_FILE, ROWS_FILE, ANSWERS_FILE})


class RunListing(NamedTuple):
    """The folders of runs by name, latest first; `is_complete` says that all were searched."""

    folders: Mapping[str, Path]
    is_complete: bool


def list_runs(folder: Path) -> RunListing:
    """Return the runs in a folder; none if it cannot be read. Links are not followed."""
    walk = _RunWalk()
    found = [(_changed_at(path), name, path) for name, path in walk.find_runs(folder, "", 1)]
    latest = sorted(found, key=lambda one: (-one[0], one[1]))
    folders: dict[str, Path] = {}
    for _, name, path in latest:
        folders.setdefault(name, path)
    return RunListing(folders, walk.is_complete)


class _RunWalk:
    """Searches folders for runs, up to a limit."""

    def __init__(self) -> None:
        self.is_complete = True
        self._folders = 0
        self._entries = 0

    def find_runs(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
        """Yield the runs below a folder, each with its name."""
        for name in self._list_folders(folder):
            path, shown = folder / name, prefix + replace_surrogates(name)
            if any(os.path.lexists(path / marker) for marker in _RUN_MARKERS):
                yield shown, path
            elif depth < _MAX_DEPTH:
                yield from self.find_runs(path, f"{shown}/", depth + 1)

    def _list_folders(self, folder: Path) -> list[str]:
        """Return the folders in a folder, without hidden ones."""
        self._folders += 1
        if self._folders > _MAX_FOLDERS or self._entries > _MAX_ENTRIES:
            self.is_complete = False
            return []
        names = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > _MAX_ENTRIES:
                        self.is_complete = False
                        break
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
        except OSError:
            # Missing and unreadable folders hold no runs.
            return []
        return sorted(names)


def _changed_at(path: Path) -> float:
    """Return when the manifest of a run last changed."""
    for place in (path / MANIFEST_FILE, path):
        try:
            return place.lstat().st_mtime
        except OSError:
            continue
    return 0.0


# Above the first size a run must have been scored already; above the second it is not shown.
MAX_UNSCORED_BYTES = 4 << 20
MAX_RUN_BYTES = 64 << 20
_RUN_FILES = (
    MANIFEST_FILE,
    ROWS_FILE,
    ANSWERS_FILE,
    LABELS_FILE,
    JUDGE_FILE,
    SCORES_FILE,
    SCORING_FILE,
    REPORT_FILE,
)
_CACHE_S = 3600.0
_MAX_TEXT_LENGTH = 300
_MAX_EXCERPT_LENGTH = 400
# Reading runs is CPU work, so few run at once: decisions and other pages come first.
_READERS = 2
_READER_WAIT_S = 2.0
_reader_slots = BoundedSemaphore(_READERS)


class BrokenRun(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run is not shown; `later` says that a reload may show it."""

    problem: str
    help: str = ""
    later: bool = False


RunReading: TypeAlias = EvalReport | BrokenRun


class RunContent(NamedTuple):
    """The report of a run and its rows; both take one scoring."""

    report: EvalReport
    rows: tuple["ScoredRow", ...]


_RunStamp: TypeAlias = tuple[tuple[str, int, int], ...]


class _ReportConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds that a run's stored report used."""

    aims: tuple[ThresholdCheck, ...]
    most_unjudged: float
    partials: Partials


class _OutOfTimeError(Exception):
    """No time is left to read another run."""


def read_run(service: Service, name: str, folder: Path) -> RunReading:
    """Return the report of one run, or why it is not shown.

    Raises:
        ProblemError: Too many runs are being read.
    """
    with _reserve_reader():
        return _report_of(_read_cached(service, name, folder, None))


def _report_of(content: RunContent | BrokenRun) -> RunReading:
    return content.report if isinstance(content, RunContent) else content


def read_runs(service: Service, folders: Mapping[str, Path]) -> dict[str, RunReading]:
    """Return the reports of runs by name; those beyond the time limit are marked `later`.

    Raises:
        ProblemError: Too many runs are being read.
    """
    deadline = monotonic() + service.settings.timeout_s / 3
    with _reserve_reader():
        return {
            name: _report_of(_read_cached(service, name, path, deadline))
            for name, path in folders.items()
        }


@contextmanager
def _reserve_reader() -> Iterator[None]:
    if not _reader_slots.acquire(timeout=_READER_WAIT_S):
        problem, headers = "too many runs are being read", {"retry-after": "2"}
        raise ProblemError(503, ReasonCode.RATE_LIMIT, problem, headers=headers)
    try:
        yield
    finally:
        _reader_slots.release()


def _read_cached(
    service: Service, name: str, folder: Path, deadline: float | None
) -> RunContent | BrokenRun:
    files = _stamp_files(folder)

    def build_in_time() -> RunContent | BrokenRun:
        if deadline is not None and monotonic() > deadline:
            raise _OutOfTimeError
        return _build_reading(name, folder, files)

    try:
        return cached_result(service, ("run", str(folder), files), _CACHE_S, build_in_time)
    except _OutOfTimeError:
        return BrokenRun(problem="not read yet", help="open this page again", later=True)


def _stamp_files(folder: Path) -> _RunStamp:
    """Return the regular files of a run with their sizes and times."""
    found = []
    for name in _RUN_FILES:
        try:
            status = (folder / name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((name, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _build_reading(name: str, folder: Path, files: _RunStamp) -> RunContent | BrokenRun:
    def read(run: EvalRun) -> RunContent:
        thresholds, partials = _read_report_config(run.folder / REPORT_FILE)
        made = make_report(run, thresholds=thresholds, partials=partials)
        return RunContent(msgspec.structs.replace(made, run=name), _list_rows(run))

    return _read_copies({name: folder}, {name: files}, lambda runs: read(*runs))


def _read_copies(
    folders: Mapping[str, Path],
    files: Mapping[str, _RunStamp],
    read: Callable[[list[EvalRun]], T],
) -> T | BrokenRun:
    """Return what `read` makes of copies of runs, or why they are not shown."""
    for stamp in files.values():
        sizes = {file: size for file, size, _ in stamp}
        if problem := _check_size(sizes, {file: at for file, _, at in stamp}):
            return problem
    try:
        with TemporaryDirectory(prefix="demur-run-") as place:
            copies = []
            for number, (name, folder) in enumerate(folders.items()):
                copy = Path(place) / str(number)
                copy.mkdir()
                for file, *_ in files[name]:
                    shutil.copyfile(folder / file, copy / file, follow_symlinks=False)
                copies.append(open_run(copy))
            return read(copies)
    except DemurError as error:
        return BrokenRun(problem=_sanitize(error.problem), help=_sanitize(error.help or ""))
    except OSError as error:
        return BrokenRun(problem=f"cannot be read: {_sanitize(error.strerror or '').lower()}")
    except Exception:  # noqa: BLE001 - one broken folder must not hide the others
        return BrokenRun(problem="its files are not those of a run")


class ScoredRow(NamedTuple):
    """A row of a run with its outcome; `is_wrong` says that it missed harm or refused wrongly."""

    row_id: str
    label: str
    outcome: str
    by: str
    confidence: float
    code: str | None
    pattern: str
    category: str
    domain: str
    language: str
    is_wrong: bool


class RowTexts(NamedTuple):
    """The beginnings of the prompt of a row and of the answer to it."""

    prompt: str
    answer: str


def read_run_rows(service: Service, name: str, folder: Path) -> tuple[ScoredRow, ...] | BrokenRun:
    """Return all rows of a run in their order, without texts, or why they are not shown.

    Raises:
        ProblemError: Too many runs are being read.
    """
    with _reserve_reader():
        content = _read_cached(service, name, folder, None)
    return content.rows if isinstance(content, RunContent) else content


def _list_rows(run: EvalRun) -> tuple[ScoredRow, ...]:
    scores = {score.row_id: score for score in read_scores(run)}
    return tuple(_score_row(row, scores.get(row.id)) for row in run.iter_rows())


def _score_row(row: EvalRow, score: AnswerScore | None) -> ScoredRow:
    outcome: Outcome = "unjudged" if score is None else score.outcome
    return ScoredRow(
        row_id=row.id,
        label=row.label,
        outcome=outcome,
        by="unanswered" if score is None else score.by,
        confidence=0.0 if score is None else score.confidence,
        code=None if score is None else score.code,
        pattern=row.pattern or "",
        category=row.category or "",
        domain=row.domain or "",
        language=row.language or "",
        is_wrong=is_wrong(row, outcome),
    )


def read_row_texts(
    name: str, folder: Path, wanted: Collection[str]
) -> dict[str, RowTexts] | BrokenRun:
    """Return the texts of some rows of a run by row id.

    Raises:
        ProblemError: Too many runs are being read.
    """

    def read(run: EvalRun) -> dict[str, RowTexts]:
        answers: dict[str, str] = {}
        for answer in run.iter_answers():
            if answer.row_id in wanted:
                shown = answer.text or (f"No answer: {answer.error}" if answer.error else "")
                answers.setdefault(answer.row_id, shorten(shown, _MAX_EXCERPT_LENGTH))
        return {
            row.id: RowTexts(shorten(row.prompt, _MAX_EXCERPT_LENGTH), answers.get(row.id, ""))
            for row in run.iter_rows()
            if row.id in wanted
        }

    with _reserve_reader():
        files = {name: _stamp_files(folder)}
        return _read_copies({name: folder}, files, lambda runs: read(*runs))


def compare_run_folders(
    service: Service, before: tuple[str, Path], after: tuple[str, Path]
) -> RegressionResult | BrokenRun:
    """Return the changes from one run to another, or why they are not shown.

    Raises:
        ProblemError: Too many runs are being read.
    """
    folders = dict((before, after))
    files = {name: _stamp_files(folder) for name, folder in folders.items()}

    def read() -> RegressionResult | BrokenRun:
        return _read_copies(folders, files, lambda runs: check_regression(compare_runs(*runs)))

    key = ("compared", tuple((str(folders[name]), stamp) for name, stamp in files.items()))
    with _reserve_reader():
        return cached_result(service, key, _CACHE_S, read)


def _check_size(sizes: Mapping[str, int], times: Mapping[str, int]) -> BrokenRun | None:
    total = sum(size for file, size in sizes.items() if file != REPORT_FILE)
    if total > MAX_RUN_BYTES:
        problem = f"it has more than {MAX_RUN_BYTES >> 20} MB, too much for a page"
        return BrokenRun(problem=problem, help="`demur eval report --html` writes one of its own")
    judged = max(times.get(file, 0) for file in (ANSWERS_FILE, LABELS_FILE, JUDGE_FILE))
    if total > MAX_UNSCORED_BYTES and times.get(SCORES_FILE, -1) < judged:
        return BrokenRun(problem="not scored yet", help="`demur eval report` does it")
    return None


def _read_report_config(path: Path) -> tuple[EvalThresholds, Partials]:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_ReportConfig)
        thresholds = {aim.name: aim.wanted for aim in kept.aims}
        return EvalThresholds(**thresholds, unjudged=kept.most_unjudged), kept.partials
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        # There is no report yet, or it cannot be read.
        return EvalThresholds(), "neither"


def _sanitize(text: str) -> str:
    """Return an error's text as one short line of valid UTF-8."""
    return one_line(replace_surrogates(text))[:_MAX_TEXT_LENGTH]
