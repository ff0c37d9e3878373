"""Reports of runs, read within bounds: nothing is written to a run, and none hides another.

A run may be under way, be torn or hold anything. It is copied aside and reported there; what
was read is kept for as long as no file of the run changes.
"""

import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from time import monotonic
from typing import TypeAlias

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError, one_line
from demur.evals.aims import Aim, Aims
from demur.evals.judge import JUDGE_FILE
from demur.evals.labels import LABELS_FILE
from demur.evals.report import REPORT, Report, make_report
from demur.evals.run_folder import ANSWERS, ROWS, open_run
from demur.evals.run_manifest import MANIFEST
from demur.evals.scoring import SCORES, SCORING
from demur.evals.tally import Partials
from demur.service.dashboard.recent import recent
from demur.service.problem import ProblemError
from demur.service.service import Service

__all__ = ["Broken", "Reading", "read_run", "read_runs"]

# Above the first size a run must have been scored already; above the second it is not shown.
LARGEST_UNSCORED = 4 << 20
LARGEST = 64 << 20
_FILES = (MANIFEST, ROWS, ANSWERS, LABELS_FILE, JUDGE_FILE, SCORES, SCORING, REPORT)
_KEPT_S = 3600.0
_LONGEST = 300
# Reading runs is CPU work, so few run at once: decisions and other pages come first.
_READERS = 2
_PATIENCE_S = 2.0
_places = BoundedSemaphore(_READERS)


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run is not shown; `later` says that a reload may show it."""

    problem: str
    help: str = ""
    later: bool = False


Reading: TypeAlias = Report | Broken
_Stamp: TypeAlias = tuple[tuple[str, int, int], ...]


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds that a run's stored report used."""

    aims: tuple[Aim, ...]
    most_unjudged: float
    partials: Partials


class _NotYetError(Exception):
    """No time is left to read another run."""


def read_run(service: Service, name: str, folder: Path) -> Reading:
    """Return the report of one run, or why it is not shown.

    Raises:
        ProblemError: Too many runs are being read.
    """
    with _reading():
        return _read(service, name, folder, None)


def read_runs(service: Service, folders: Mapping[str, Path]) -> dict[str, Reading]:
    """Return the reports of runs by name; those beyond the time limit are marked `later`.

    Raises:
        ProblemError: Too many runs are being read.
    """
    deadline = monotonic() + service.settings.timeout_s / 3
    with _reading():
        return {name: _read(service, name, path, deadline) for name, path in folders.items()}


@contextmanager
def _reading() -> Iterator[None]:
    if not _places.acquire(timeout=_PATIENCE_S):
        raise ProblemError(
            503,
            ReasonCode.RATE_LIMIT,
            "too many runs are being read",
            headers={"retry-after": "2"},
        )
    try:
        yield
    finally:
        _places.release()


def _read(service: Service, name: str, folder: Path, deadline: float | None) -> Reading:
    files = _stamp(folder)

    def make() -> Reading:
        if deadline is not None and monotonic() > deadline:
            raise _NotYetError
        return _made(name, folder, files)

    try:
        return recent(service, ("run", str(folder), files), _KEPT_S, make)
    except _NotYetError:
        return Broken(problem="not read yet", help="open this page again", later=True)


def _stamp(folder: Path) -> _Stamp:
    """Return the regular files of a run with their sizes and times."""
    found = []
    for name in _FILES:
        try:
            status = (folder / name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((name, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _made(name: str, folder: Path, files: _Stamp) -> Reading:
    sizes = {file: size for file, size, _ in files}
    if problem := _too_large(sizes, {file: at for file, _, at in files}):
        return problem
    try:
        with TemporaryDirectory(prefix="demur-run-") as place:
            return _reported(name, folder, Path(place), sizes)
    except DemurError as error:
        return Broken(problem=_text(error.problem), help=_text(error.help or ""))
    except OSError as error:
        return Broken(problem=f"cannot be read: {_text(error.strerror or '').lower()}")
    except Exception:  # noqa: BLE001 - one broken folder must not hide the others
        return Broken(problem="its files are not those of a run")


def _too_large(sizes: Mapping[str, int], times: Mapping[str, int]) -> Broken | None:
    total = sum(size for file, size in sizes.items() if file != REPORT)
    if total > LARGEST:
        problem = f"it has more than {LARGEST >> 20} MB, too much for a page"
        return Broken(problem=problem, help="`demur eval report --html` writes one of its own")
    judged = max(times.get(file, 0) for file in (ANSWERS, LABELS_FILE, JUDGE_FILE))
    if total > LARGEST_UNSCORED and times.get(SCORES, -1) < judged:
        return Broken(problem="not scored yet", help="`demur eval report` does it")
    return None


def _reported(name: str, folder: Path, place: Path, sizes: Mapping[str, int]) -> Report:
    """Return the report of a run's copy, with the thresholds of its stored report."""
    for file in sizes:
        shutil.copyfile(folder / file, place / file, follow_symlinks=False)
    aims, partials = _held_to(place / REPORT)
    report = make_report(open_run(place), aims=aims, partials=partials)
    return msgspec.structs.replace(report, run=name)


def _held_to(path: Path) -> tuple[Aims, Partials]:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        wanted = {aim.name: aim.wanted for aim in kept.aims}
        return Aims(**wanted, unjudged=kept.most_unjudged), kept.partials
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        # There is no report yet, or it cannot be read.
        return Aims(), "neither"


def _text(said: str) -> str:
    """Return an error's text as one short line of valid UTF-8."""
    shown = one_line(said.encode("utf-8", "replace").decode("utf-8"))
    return shown[:_LONGEST]
