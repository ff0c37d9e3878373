"""What a run came to: both rates with their intervals, whether they are where they should be.

A report also says where it went wrong, by category, pattern, language and domain, how well
refusals are worded, and which answers to read first. It is kept in the run's folder.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from demur.evals.agreement import Agreement
from demur.evals.aims import Aim, Aims, check_aims, status_of
from demur.evals.examples import Example, Worst, fetch
from demur.evals.rates import Rate, rate_of
from demur.evals.report_counts import Seen, count_scores
from demur.evals.row_index import RowIndex
from demur.evals.run_folder import Run
from demur.evals.run_manifest import Manifest, RunError
from demur.evals.score import Score
from demur.evals.scoring import DecideBy, Scoring, read_scores, score_run
from demur.evals.suite_row import LABELS
from demur.evals.tally import Counts, Partials, Rates, Tally, rates_of

__all__ = ["DIMENSIONS", "REPORT", "Group", "Quality", "Report", "make_report", "save_report"]

REPORT = "report.json"
DIMENSIONS = ("pattern", "category", "domain", "language")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of rows with a common value."""

    name: str
    rows: int
    rates: Rates


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How well refusals are worded: counts by verdict, and the mean grade."""

    verdicts: dict[str, int]
    mean_grade: float | None
    wordless: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a run; `status` is the exit status of the command."""

    schema_version: Literal["eval_report.v1"] = "eval_report.v1"
    run: str
    manifest: Manifest
    complete: bool
    partials: Partials
    decided_by: dict[str, int]
    harmful: Counts
    legitimate: Counts
    rates: Rates
    aims: tuple[Aim, ...]
    most_unjudged: float
    status: int
    unjudged: dict[str, int]
    twins_told_apart: Rate
    groups: dict[str, tuple[Group, ...]]
    quality: Quality
    agreement: tuple[Agreement, ...]
    missed_harm: tuple[Example, ...]
    false_refusals: tuple[Example, ...]
    twins: tuple[tuple[Example, Example], ...]
    worst_refusals: tuple[Example, ...]
    not_judged: tuple[Example, ...]


def make_report(
    run: Run,
    *,
    aims: Aims | None = None,
    partials: Partials = "neither",
    examples: int = 5,
    decide_by: DecideBy | None = None,
    workers: int = 1,
    fresh: bool = False,
) -> Report:
    """Return the report of a run; a run without scores is scored first.

    Raises:
        RunError: The run cannot be read.
        InputError: A setting is invalid.
    """
    scoring = score_run(run, decide_by=decide_by, workers=workers, fresh=fresh)
    with RowIndex(run) as rows:
        seen = count_scores(read_scores(run), rows, DIMENSIONS, examples)
        worst = seen.picker.worst()
        found = fetch(run, rows, _picked(worst))
    return _report(run, scoring, seen, found, aims=aims or Aims(), partials=partials)


def save_report(run: Run, report: Report) -> None:
    """Write a report to its run's folder.

    Raises:
        RunError: The report cannot be written.
    """
    path = run.folder / REPORT
    fresh = path.with_name(f"{REPORT}.new")
    try:
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        fresh.replace(path)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise RunError(f"cannot write the report: {reason}", where=str(path)) from error


def _picked(worst: Worst) -> list[Score]:
    singles = (*worst.missed_harm, *worst.false_refusals, *worst.refusals, *worst.unjudged)
    return [*singles, *(score for pair in worst.twins for score in pair)]


def _report(
    run: Run,
    scoring: Scoring,
    seen: Seen,
    found: Mapping[str, Example],
    *,
    aims: Aims,
    partials: Partials,
) -> Report:
    harmful, legitimate = (seen.total.counts(label) for label in LABELS)
    rates = rates_of(harmful, legitimate, partials)
    worst = seen.picker.worst()
    checked = check_aims(rates, aims)

    def shown(scores: tuple[Score, ...]) -> tuple[Example, ...]:
        return tuple(found[score.row_id] for score in scores)

    return Report(
        run=run.folder.name,
        manifest=run.manifest,
        complete=run.complete,
        partials=partials,
        decided_by={name: count for name, count in seen.by.most_common() if count},
        harmful=harmful,
        legitimate=legitimate,
        rates=rates,
        aims=checked,
        most_unjudged=aims.unjudged,
        status=status_of(rates, checked, aims),
        unjudged=dict(seen.why.most_common()),
        twins_told_apart=rate_of(worst.pairs_right, worst.pairs),
        groups={name: _groups(tallies, partials) for name, tallies in seen.groups.items()},
        quality=_quality(seen),
        agreement=scoring.agreement,
        missed_harm=shown(worst.missed_harm),
        false_refusals=shown(worst.false_refusals),
        twins=tuple((found[one.row_id], found[other.row_id]) for one, other in worst.twins),
        worst_refusals=shown(worst.refusals),
        not_judged=shown(worst.unjudged),
    )


def _groups(tallies: dict[str, Tally], partials: Partials) -> tuple[Group, ...]:
    """Return the groups of one dimension by name; none if there is only one group."""
    if len(tallies) < 2:
        return ()
    groups = []
    for name, tally in sorted(tallies.items()):
        harmful, legitimate = (tally.counts(label) for label in LABELS)
        rates = rates_of(harmful, legitimate, partials)
        groups.append(Group(name=name or "none", rows=rates.unjudged.of, rates=rates))
    return tuple(groups)


def _quality(seen: Seen) -> Quality:
    verdicts = {name: count for name, count in seen.verdicts.most_common() if name}
    graded = seen.grades.total()
    total = sum(grade * count for grade, count in seen.grades.items())
    return Quality(
        verdicts=verdicts,
        mean_grade=round(total / graded, 1) if graded else None,
        wordless=seen.verdicts[""],
    )
