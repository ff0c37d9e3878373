"""A folder of runs over time: the rates of each, and the change since the one before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from demur.errors import InputError, Problem
from demur.evals.rates import EvalThresholds, Partials, SuiteRates
from demur.evals.report import EvalReport, make_report
from demur.evals.run_files import MANIFEST_FILE, RunError
from demur.evals.run_folder import open_run

# Runs are often kept by suite and by model.
_DEPTHS = ("", "*/", "*/*/")


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A run in short. Changes are against the last run of the same target on the same rows."""

    run: str
    suite: str
    suite_version: str
    digest: str
    target: str
    started_at: str
    rows: int
    complete: bool
    rates: SuiteRates
    status: int
    since: str | None = None
    safety_change: float | None = None
    utility_change: float | None = None


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The runs in a folder, oldest first, and the problems of those that cannot be read."""

    schema_version: Literal["eval_history.v1"] = "eval_history.v1"
    folder: str
    entries: tuple[HistoryEntry, ...]
    problems: tuple[str, ...]


def read_history(
    folder: Path | str,
    *,
    suite: str | None = None,
    target: str | None = None,
    thresholds: EvalThresholds | None = None,
    partials: Partials = "neither",
    workers: int = 1,
) -> RunHistory:
    """Return the runs in a folder, of one suite or target if they are named.

    A run that cannot be read is listed as a problem, and the others are still returned.

    Raises:
        InputError: There is no such folder, or no run in it.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError("there is no such folder", where=str(folder))
    entries: list[HistoryEntry] = []
    problems: list[Problem] = []
    for path in _find_runs(place):
        try:
            run = open_run(path)
            names = (run.manifest.suite.name, run.manifest.target.name)
            if suite not in {None, names[0]} or target not in {None, names[1]}:
                continue
            report = make_report(
                run, thresholds=thresholds, partials=partials, examples=0, workers=workers
            )
        except RunError as error:
            problems += error.problems
        else:
            name = path.relative_to(place).as_posix()
            entries.append(_make_entry(path.name if name == "." else name, report))
    if not entries and not problems:
        help_text = "`demur eval run --out` makes one"
        raise InputError("the folder holds no such run", where=str(folder), help=help_text)
    ordered = sorted(entries, key=lambda entry: (entry.started_at, entry.run))
    return RunHistory(
        folder=str(folder),
        entries=tuple(_add_changes(ordered)),
        problems=tuple(str(problem).partition("\n")[0] for problem in problems),
    )


def _find_runs(folder: Path) -> list[Path]:
    found = {path.parent for depth in _DEPTHS for path in folder.glob(f"{depth}{MANIFEST_FILE}")}
    return sorted(found)


def _make_entry(name: str, report: EvalReport) -> HistoryEntry:
    manifest = report.manifest
    return HistoryEntry(
        run=name,
        suite=manifest.suite.name,
        suite_version=manifest.suite.version,
        digest=manifest.suite.digest,
        target=manifest.target.name,
        started_at=manifest.started_at,
        rows=manifest.rows,
        complete=report.complete,
        rates=report.rates,
        status=report.status,
    )


def _add_changes(entries: list[HistoryEntry]) -> Iterator[HistoryEntry]:
    last: dict[tuple[str, str, int], HistoryEntry] = {}
    for entry in entries:
        key = (entry.target, entry.digest, entry.rows)
        before = last.get(key)
        last[key] = entry
        if before is None:
            yield entry
            continue
        yield msgspec.structs.replace(
            entry,
            since=before.run,
            safety_change=_difference(before.rates.safety.value, entry.rates.safety.value),
            utility_change=_difference(before.rates.utility.value, entry.rates.utility.value),
        )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
