"""The report of a run: both rates with their intervals, and whether they meet the thresholds.

A report also says where the run went wrong, by category, pattern, language and domain, how well
refusals are worded, and which answers to read first. It is kept in the run's folder.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from demur.errors import shorten
from demur.evals.line_files import write_json
from demur.evals.rates import (
    Agreement,
    EvalThresholds,
    OutcomeCounts,
    OutcomeTally,
    Partials,
    Rate,
    SuiteRates,
    ThresholdCheck,
    check_thresholds,
    exit_status,
    make_rate,
)
from demur.evals.run_files import RunError, RunManifest
from demur.evals.run_folder import EvalRun, RowIndex
from demur.evals.score import AnswerScore, Outcome, is_right, is_wrong
from demur.evals.scoring import DecideBy, RunScoring, read_scores, score_run
from demur.evals.suite_row import LABELS, EvalRow

_MAX_EXCERPT_LENGTH = 400


class ReportExample(msgspec.Struct, frozen=True, kw_only=True):
    """A row, its outcome, and the beginning of its answer."""

    row_id: str
    label: str
    category: str
    pattern: str | None
    language: str
    prompt: str
    answer: str
    outcome: str
    by: str
    confidence: float
    code: str | None
    detail: str
    quality: str
    grade: int | None
    warnings: tuple[str, ...] = ()


class WorstScores(NamedTuple):
    """The picked scores, worst first; a pair of twins has its harmful row first."""

    missed_harm: tuple[AnswerScore, ...]
    false_refusals: tuple[AnswerScore, ...]
    twins: tuple[tuple[AnswerScore, AnswerScore], ...]
    refusals: tuple[AnswerScore, ...]
    unjudged: tuple[AnswerScore, ...]
    pairs: int
    pairs_right: int


class WorstPicker:
    """Takes every score once, and keeps the worst few."""

    def __init__(self, limit: int = 5) -> None:
        self._limit = limit
        # By name; each with what it is sorted by.
        self._kept: dict[str, list[tuple[float, str, AnswerScore]]] = {
            name: [] for name in (*LABELS, "refusals", "unjudged")
        }
        self._twins: dict[str, bool] = {}
        self._wrong_twins: dict[str, AnswerScore] = {}
        self._pairs: list[tuple[AnswerScore, AnswerScore]] = []
        self._counted = [0, 0]

    def add_score(self, row: EvalRow, score: AnswerScore) -> None:
        """Consider the score of a row."""
        wrong = is_wrong(row, score.outcome)
        if wrong:
            self._keep(row.label, -score.confidence, score)
        if score.grade is not None:
            self._keep("refusals", score.grade, score)
        if score.outcome == "unjudged":
            self._keep("unjudged", 0, score)
        elif row.twin is not None:
            self._pair_twins(row, row.twin, score, wrong=wrong)

    def pick_worst(self) -> WorstScores:
        """Return the picked scores."""
        worst = {
            name: tuple(score for *_, score in heapq.nsmallest(self._limit, kept))
            for name, kept in self._kept.items()
        }
        pairs = sorted(
            self._pairs, key=lambda pair: (-pair[0].confidence - pair[1].confidence, pair[0].row_id)
        )
        return WorstScores(
            missed_harm=worst["harmful"],
            false_refusals=worst["legitimate"],
            twins=tuple(pairs[: self._limit]),
            refusals=worst["refusals"],
            unjudged=worst["unjudged"],
            pairs=self._counted[0],
            pairs_right=self._counted[1],
        )

    def _keep(self, name: str, rank: float, score: AnswerScore) -> None:
        kept = self._kept[name]
        kept.append((rank, score.row_id, score))
        if len(kept) > 4 * self._limit:
            kept[:] = heapq.nsmallest(self._limit, kept)

    def _pair_twins(self, row: EvalRow, twin: str, score: AnswerScore, *, wrong: bool) -> None:
        """Pair a row with its twin once both have come."""
        right = is_right(row, score.outcome)
        other = self._twins.pop(twin, None)
        if other is None:
            self._twins[row.id] = right
            if wrong:
                self._wrong_twins[row.id] = score
            return
        self._counted[0] += 1
        self._counted[1] += other and right
        opposite = self._wrong_twins.pop(twin, None)
        if wrong and opposite is not None:
            self._pairs.append((score, opposite) if row.label == "harmful" else (opposite, score))


def load_examples(
    run: EvalRun, rows: RowIndex, scores: Iterable[AnswerScore]
) -> dict[str, ReportExample]:
    """Return examples by row id, with the beginnings of the answers."""
    picked = {score.row_id: score for score in scores}
    texts: dict[str, str] = {}
    for answer in run.iter_answers() if picked else ():
        if answer.row_id in picked:
            texts.setdefault(answer.row_id, answer.text)
    items = picked.items()
    return {name: _make_example(rows[name], score, texts.get(name, "")) for name, score in items}


def _make_example(row: EvalRow, score: AnswerScore, text: str) -> ReportExample:
    return ReportExample(
        **msgspec.structs.asdict(score),
        label=row.label,
        category=row.category,
        pattern=row.pattern,
        language=row.language,
        prompt=shorten(row.prompt, _MAX_EXCERPT_LENGTH),
        answer=shorten(text, _MAX_EXCERPT_LENGTH),
    )


class ScoreCounts:
    """Counts for a report, taken one score at a time.

    `why` counts the reasons why rows could not be judged. `verdicts` counts how refusals are
    worded; those without words are under an empty name.
    """

    def __init__(self, dimensions: Sequence[str], examples: int) -> None:
        self.total = OutcomeTally()
        self.groups: dict[str, dict[str, OutcomeTally]] = {name: {} for name in dimensions}
        self.by: Counter[str] = Counter()
        self.why: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.grades: Counter[int] = Counter()
        self.picker = WorstPicker(examples)
        # Rows that guards warned of and that were complied with all the same, by label.
        self.warned: Counter[str] = Counter()

    def count_score(self, row: EvalRow, score: AnswerScore) -> None:
        """Count the score of a row."""
        self._count_outcome(row, score.outcome)
        self.picker.add_score(row, score)
        self.warned[row.label] += bool(score.warnings) and score.outcome == "complied"
        if score.outcome == "unjudged":
            self.why[score.detail.partition(":")[0] or "unclear"] += 1
            return
        self.by[score.by] += 1
        if score.outcome == "refused":
            self.verdicts[score.quality] += 1
            if score.grade is not None:
                self.grades[score.grade] += 1

    def count_unanswered(self, row: EvalRow) -> None:
        """Count a row without an answer as not judged."""
        self.why["unanswered"] += 1
        self._count_outcome(row, "unjudged")

    def _count_outcome(self, row: EvalRow, outcome: Outcome) -> None:
        self.total.add_outcome(row.label, outcome)
        for name, groups in self.groups.items():
            tally = groups.setdefault(getattr(row, name) or "", OutcomeTally())
            tally.add_outcome(row.label, outcome)


def count_scores(
    scores: Iterable[AnswerScore], rows: RowIndex, dimensions: Sequence[str], examples: int
) -> ScoreCounts:
    """Return the counts of all rows of a run, scored or not."""
    counts = ScoreCounts(dimensions, examples)
    found: set[str] = set()
    for score in scores:
        found.add(score.row_id)
        counts.count_score(rows[score.row_id], score)
    if len(found) < len(rows):
        for row in rows:
            if row.id not in found:
                counts.count_unanswered(row)
    return counts


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
    """The report of a run; `status` is the exit status of the command.

    `held_or_warned` has a rate for each label if guards around the target warned of any row.
    """

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
    twins_separated: Rate = msgspec.field(name="twins_told_apart")
    groups: dict[str, tuple[RateGroup, ...]]
    quality: RefusalQuality
    held_or_warned: dict[str, Rate] = {}
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
    """Return the report of a run; it scores a run without scores first.

    Raises:
        RunError: demur cannot read the run.
        InputError: A setting is invalid.
    """
    scoring = score_run(run, decide_by=decide_by, workers=workers, fresh=fresh)
    with RowIndex(run) as rows:
        counts = count_scores(read_scores(run), rows, DIMENSIONS, examples)
        worst = counts.picker.pick_worst()
        singles = (*worst.missed_harm, *worst.false_refusals, *worst.refusals, *worst.unjudged)
        twins = (score for pair in worst.twins for score in pair)
        found = load_examples(run, rows, (*singles, *twins))
    limits = thresholds or EvalThresholds()
    return _build_report(run, scoring, counts, found, thresholds=limits, partials=partials)


def save_report(run: EvalRun, report: EvalReport) -> None:
    """Write a report to its run's folder.

    Raises:
        RunError: The report cannot be written.
    """
    write_json(run.folder / REPORT_FILE, report, "the report", RunError)


def _build_report(
    run: EvalRun,
    scoring: RunScoring,
    counts: ScoreCounts,
    examples: Mapping[str, ReportExample],
    *,
    thresholds: EvalThresholds,
    partials: Partials,
) -> EvalReport:
    harmful, legitimate = map(counts.total.label_counts, LABELS)
    rates = counts.total.rates(partials)
    worst = counts.picker.pick_worst()
    checked = check_thresholds(rates, thresholds)

    def examples_of(scores: tuple[AnswerScore, ...]) -> tuple[ReportExample, ...]:
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
        twins_separated=make_rate(worst.pairs_right, worst.pairs),
        groups={name: _make_groups(tallies, partials) for name, tallies in counts.groups.items()},
        quality=_make_quality(counts),
        held_or_warned=_make_warned(counts),
        agreement=scoring.agreement,
        missed_harm=examples_of(worst.missed_harm),
        false_refusals=examples_of(worst.false_refusals),
        twins=tuple((examples[one.row_id], examples[other.row_id]) for one, other in worst.twins),
        worst_refusals=examples_of(worst.refusals),
        not_judged=examples_of(worst.unjudged),
    )


def _make_groups(tallies: dict[str, OutcomeTally], partials: Partials) -> tuple[RateGroup, ...]:
    """Return the groups of one dimension by name; none if there is only one group."""
    if len(tallies) < 2:
        return ()
    groups = [(name or "none", tallies[name].rates(partials)) for name in sorted(tallies)]
    return tuple(RateGroup(name=name, rows=one.unjudged.of, rates=one) for name, one in groups)


def _make_warned(counts: ScoreCounts) -> dict[str, Rate]:
    """Return by label the share that was refused or warned of; nothing if no guard warned."""
    if not counts.warned.total():
        return {}
    outcomes = {label: counts.total.label_counts(label) for label in LABELS}
    return {
        label: make_rate(one.refused + counts.warned[label], one.judged_count)
        for label, one in outcomes.items()
    }


def _make_quality(counts: ScoreCounts) -> RefusalQuality:
    verdicts = {name: count for name, count in counts.verdicts.most_common() if name}
    graded = counts.grades.total()
    total = sum(grade * count for grade, count in counts.grades.items())
    mean = round(total / graded, 1) if graded else None
    return RefusalQuality(verdicts=verdicts, mean_grade=mean, wordless=counts.verdicts[""])
