"""What a run came to: both rates with their intervals, whether they are where they should be.

A report also says where it went wrong, by category, pattern, language and domain, how well
refusals are worded, and which answers to read first. It is kept in the run's folder.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from demur.evals.agreement import Agreement
from demur.evals.aims import ThresholdCheck, EvalThresholds, check_thresholds, exit_status
from demur.evals.examples import ReportExample, WorstScores, load_examples
from demur.evals.rates import Rate, make_rate
from demur.evals.report_counts import ScoreCounts, count_scores
from demur.evals.row_index import RowIndex
from demur.evals.run_folder import EvalRun
from demur.evals.run_manifest import RunManifest, RunError
from demur.evals.score import AnswerScore
from demur.evals.scoring import DecideBy, RunScoring, read_scores, score_run
from demur.evals.suite_row import LABELS
from demur.evals.tally import OutcomeCounts, Partials, SuiteRates, OutcomeTally, make_rates

__all__ = [
    "DIMENSIONS",
    "REPORT_FILE",
    "RateGroup",
    "RefusalQuality",
    "EvalReport",
    "make_report",
    "save_report",
]

REPORT_FILE = "report.json"
DIMENSIONS = ("pattern", "category", "domain", "language")


class RateGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of rows with a common value."""

    name: str
    rows: int
    rates: SuiteRates


class RefusalQuality(msgspec.Struct, frozen=True, kw_only=True):
    """How well refusals are worded: counts by verdict, and the mean grade."""

    verdicts: dict[str, int]
    mean_grade: float | None
    wordless: int


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a run; `status` is the exit status of the command."""

    schema_version: Literal["eval_report.v1"] = "eval_report.v1"
    run: str
    manifest: RunManifest
    complete: bool
    partials: Partials
    decided_by: dict[str, int]
    harmful: OutcomeCounts
    legitimate: OutcomeCounts
    rates: SuiteRates
    aims: tuple[ThresholdCheck, ...]
    most_unjudged: float
    status: int
    unjudged: dict[str, int]
    twins_told_apart: Rate
    groups: dict[str, tuple[RateGroup, ...]]
    quality: RefusalQuality
    agreement: tuple[Agreement, ...]
    missed_harm: tuple[ReportExample, ...]
    false_refusals: tuple[ReportExample, ...]
    twins: tuple[tuple[ReportExample, ReportExample], ...]
    worst_refusals: tuple[ReportExample, ...]
    not_judged: tuple[ReportExample, ...]


def make_report(
    run: EvalRun,
    *,
    thresholds: EvalThresholds | None = None,
    partials: Partials = "neither",
    examples: int = 5,
    decide_by: DecideBy | None = None,
    workers: int = 1,
    fresh: bool = False,
) -> EvalReport:
    """Return the report of a run; a run without scores is scored first.

    Raises:
        RunError: The run cannot be read.
        InputError: A setting is invalid.
    """
    scoring = score_run(run, decide_by=decide_by, workers=workers, fresh=fresh)
    with RowIndex(run) as rows:
        seen = count_scores(read_scores(run), rows, DIMENSIONS, examples)
        worst = seen.picker.pick_worst()
        found = load_examples(run, rows, _list_scores(worst))
    return _build_report(
        run, scoring, seen, found, thresholds=thresholds or EvalThresholds(), partials=partials
    )


def save_report(run: EvalRun, report: EvalReport) -> None:
    """Write a report to its run's folder.

    Raises:
        RunError: The report cannot be written.
    """
    path = run.folder / REPORT_FILE
    fresh = path.with_name(f"{REPORT_FILE}.new")
    try:
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        fresh.replace(path)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise RunError(f"cannot write the report: {reason}", where=str(path)) from error


def _list_scores(worst: WorstScores) -> list[AnswerScore]:
    singles = (*worst.missed_harm, *worst.false_refusals, *worst.refusals, *worst.unjudged)
    return [*singles, *(score for pair in worst.twins for score in pair)]


def _build_report(
    run: EvalRun,
    scoring: RunScoring,
    counts: ScoreCounts,
    examples: Mapping[str, ReportExample],
    *,
    thresholds: EvalThresholds,
    partials: Partials,
) -> EvalReport:
    harmful, legitimate = (counts.total.label_counts(label) for label in LABELS)
    rates = make_rates(harmful, legitimate, partials)
    worst = counts.picker.pick_worst()
    checked = check_thresholds(rates, thresholds)

    def shown(scores: tuple[AnswerScore, ...]) -> tuple[ReportExample, ...]:
        return tuple(examples[score.row_id] for score in scores)

    return EvalReport(
        run=run.folder.name,
        manifest=run.manifest,
        complete=run.is_complete,
        partials=partials,
        decided_by={name: count for name, count in counts.by.most_common() if count},
        harmful=harmful,
        legitimate=legitimate,
        rates=rates,
        aims=checked,
        most_unjudged=thresholds.unjudged,
        status=exit_status(rates, checked, thresholds),
        unjudged=dict(counts.why.most_common()),
        twins_told_apart=make_rate(worst.pairs_right, worst.pairs),
        groups={name: _make_groups(tallies, partials) for name, tallies in counts.groups.items()},
        quality=_make_quality(counts),
        agreement=scoring.agreement,
        missed_harm=shown(worst.missed_harm),
        false_refusals=shown(worst.false_refusals),
        twins=tuple((examples[one.row_id], examples[other.row_id]) for one, other in worst.twins),
        worst_refusals=shown(worst.refusals),
        not_judged=shown(worst.unjudged),
    )


def _make_groups(tallies: dict[str, OutcomeTally], partials: Partials) -> tuple[RateGroup, ...]:
    """Return the groups of one dimension by name; none if there is only one group."""
    if len(tallies) < 2:
        return ()
    groups = []
    for name, tally in sorted(tallies.items()):
        harmful, legitimate = (tally.label_counts(label) for label in LABELS)
        rates = make_rates(harmful, legitimate, partials)
        groups.append(RateGroup(name=name or "none", rows=rates.unjudged.of, rates=rates))
    return tuple(groups)


def _make_quality(counts: ScoreCounts) -> RefusalQuality:
    verdicts = {name: count for name, count in counts.verdicts.most_common() if name}
    graded = counts.grades.total()
    total = sum(grade * count for grade, count in counts.grades.items())
    return RefusalQuality(
        verdicts=verdicts,
        mean_grade=round(total / graded, 1) if graded else None,
        wordless=counts.verdicts[""],
    )
