"""Turn the mistakes of a run into preference pairs that repair them.

A refused legitimate request gets a helpful answer to prefer; an answered harmful request gets a
graceful refusal. Test rows never become pairs, and each failed row without a pair is listed with
the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from demur.evals.leaks import TEST_SHARE, NearTextIndex, check_share, half_of
from demur.evals.pairs import (
    PairMeta,
    PairReason,
    PreferencePair,
    SkippedRow,
    balance_pairs,
    clean_text,
    drop_duplicates,
)
from demur.evals.preferred_answers import (
    PreferredAnswer,
    helpful_template,
    template_answer,
    verify_answer,
)
from demur.evals.run import answer_row, run_concurrently
from demur.evals.run_folder import EvalRun, RowIndex
from demur.evals.score import is_right, is_wrong
from demur.evals.scoring import read_scores, score_run
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget, TargetAnswer

_REASONS: dict[str, PairReason] = {"legitimate": "false_refusal", "harmful": "missed_harm"}
_ANCHOR_REASONS: dict[str, PairReason] = {"legitimate": "kept_help", "harmful": "kept_refusal"}


class RemedySettings(NamedTuple):
    """How pairs are made.

    `split` uses only the training half; without it, every row counts as a test row. `edits` are
    answers by row id. Rows without an edit are answered by `better`, or by a template if there is
    no better target. `partials` also repairs partial refusals. `anchors` adds the twin of each
    mistake if it went right, so that training does not break it.
    """

    split: bool = True
    test_share: float = TEST_SHARE
    edits: Mapping[str, str] = {}
    better: EvalTarget | None = None
    partials: bool = False
    anchors: bool = False
    balance: bool = False
    concurrency: int = 8


class PairRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs, the number of failures by reason, and the skipped rows."""

    pairs: tuple[PreferencePair, ...]
    wrong: dict[str, int]
    left_out: tuple[SkippedRow, ...]

    def count_pairs(self) -> dict[str, int]:
        """Return the number of pairs by reason and by author."""
        every: Counter[str] = Counter()
        for meta in filter(None, (pair.meta for pair in self.pairs)):
            every[meta.why] += 1
            every[f"chosen by {meta.chosen_by}"] += 1
        return dict(sorted(every.items()))

    def count_skip_reasons(self) -> dict[str, int]:
        """Return the number of skipped rows by kind of reason."""
        return dict(Counter(one.kind for one in self.left_out).most_common())


class _Failure(NamedTuple):
    """A row, the reason for its pair, and the answer that was given."""

    row: EvalRow
    why: PairReason
    answer_text: str


class _RunFailures(NamedTuple):
    """The failed rows of a run in the order of the suite, and their twins that went right."""

    failures: list[_Failure]
    right: Mapping[str, _Failure]


async def remediate_run(
    run: EvalRun, *, test_rows: Iterable[EvalRow] = (), settings: RemedySettings | None = None
) -> PairRemedy:
    """Return the pairs that repair the mistakes of a run.

    `test_rows` are rows of further suites to test on; the run's own rows always count. With
    `split`, only rows in the test half count. The better target stays open.

    Raises:
        RunError: demur cannot read or score the run.
        InputError: The share is not between 0 and 1.
    """
    chosen = RemedySettings() if settings is None else settings
    check_share(chosen.test_share)
    left_out: list[SkippedRow] = []
    found = _find_failures(run, chosen)
    wrong: Counter[str] = Counter(failure.why for failure in found.failures)
    untested = _leak_filter(run, test_rows, chosen, left_out)
    fit = [failure for failure in found.failures if untested(failure)]
    answers = await _ask_better(fit, chosen)
    pairs = [pair for one in fit if (pair := _build_pair(one, run, chosen, answers, left_out))]
    kept: Iterable[PreferencePair] = list(drop_duplicates(pairs, left_out))
    if chosen.anchors:
        twins = {one.row.id: one.row.twin for one in fit}
        built = (
            _build_anchor(pair, found.right.get(twins[pair.meta.row_id] or ""), run)
            for pair in kept
            if pair.meta
        )
        anchors = [(one, pair) for one, pair in filter(None, built) if untested(one)]
        kept = [*kept, *drop_duplicates((pair for _, pair in anchors), left_out)]
    if chosen.balance:
        kept = balance_pairs(kept, left_out)
    return PairRemedy(pairs=tuple(kept), wrong=dict(wrong), left_out=tuple(left_out))


def _find_failures(run: EvalRun, settings: RemedySettings) -> _RunFailures:
    """Return the failed rows and, for anchors, the twins that went right."""
    score_run(run)
    with RowIndex(run) as rows:
        wrong: set[str] = set()
        right: set[str] = set()
        for score in read_scores(run):
            row = rows[score.row_id]
            partial = settings.partials and score.outcome == "partial"
            if partial or is_wrong(row, score.outcome):
                wrong.add(row.id)
            elif settings.anchors and row.twin is not None and is_right(row, score.outcome):
                right.add(row.id)
        right &= {rows[name].twin or "" for name in wrong}
        texts: dict[str, str] = {}
        for answer in run.iter_answers():
            if answer.row_id in wrong or answer.row_id in right:
                texts.setdefault(answer.row_id, answer.text)
        failed = (row for row in rows if row.id in wrong)
        failures = [_Failure(row, _REASONS[row.label], texts[row.id]) for row in failed]
        twins = [rows[name] for name in right]
        kept = {row.id: _Failure(row, _ANCHOR_REASONS[row.label], texts[row.id]) for row in twins}
        return _RunFailures(failures, kept)


def _leak_filter(
    run: EvalRun, test_rows: Iterable[EvalRow], settings: RemedySettings, left_out: list[SkippedRow]
) -> Callable[[_Failure], bool]:
    """Return a filter for rows that are not near a test row; it records the skipped ones."""
    near = NearTextIndex()
    for rows in (run.iter_rows(), test_rows):
        for row in rows:
            if not settings.split or half_of(row, settings.test_share) == "test":
                near.add_text(row.id, row.prompt)

    def fits(failure: _Failure) -> bool:
        row = failure.row
        if settings.split and half_of(row, settings.test_share) == "test":
            left_out.append(SkippedRow(row.id, "test half", "the row is in the test half"))
            return False
        # INVARIANT: no pair has the prompt of a row that is tested on.
        leak = near.find_near(row.prompt)
        if leak is not None:
            left_out.append(SkippedRow(row.id, "leak", f"{leak}, which is tested on"))
        return leak is None

    return fits


async def _ask_better(
    failures: Iterable[_Failure], settings: RemedySettings
) -> Mapping[str, TargetAnswer]:
    """Return the better target's answers to legitimate requests without an edit."""
    better = settings.better
    if better is None:
        return {}
    refused = (one.row for one in failures if one.why == "false_refusal")
    rows = iter([row for row in refused if row.id not in settings.edits])
    answers: dict[str, TargetAnswer] = {}

    async def ask(row: EvalRow) -> None:
        answers[row.id] = await answer_row(better, row)

    await run_concurrently(ask, rows, max(1, settings.concurrency))
    return answers


def _build_pair(
    failure: _Failure,
    run: EvalRun,
    settings: RemedySettings,
    answers: Mapping[str, TargetAnswer],
    left_out: list[SkippedRow],
) -> PreferencePair | None:
    row = failure.row
    rejected = clean_text(failure.answer_text)
    if not rejected:
        left_out.append(SkippedRow(row.id, "no words", "the answer to avoid is empty"))
        return None
    chosen = _choose_answer(failure, settings, answers)
    if chosen.text is None:
        left_out.append(SkippedRow(row.id, "no answer", chosen.author))
        return None
    meta = _build_meta(failure, run, chosen.author, run.manifest.target.name)
    return PreferencePair(prompt=row.prompt, chosen=chosen.text, rejected=rejected, meta=meta)


def _build_meta(failure: _Failure, run: EvalRun, chosen_by: str, rejected_by: str) -> PairMeta:
    row, suite = failure.row, run.manifest.suite
    return PairMeta(
        row_id=row.id,
        why=failure.why,
        chosen_by=chosen_by,
        rejected_by=rejected_by,
        run=run.folder.name,
        suite=suite.name,
        suite_digest=suite.digest,
        category=row.category,
        pattern=row.pattern or "",
        language=row.language,
    )


def _build_anchor(
    pair: PreferencePair, twin: _Failure | None, run: EvalRun
) -> tuple[_Failure, PreferencePair] | None:
    """Return the pair that keeps a twin right: it prefers the twin's own answer."""
    if twin is None or not (answer := clean_text(twin.answer_text)):
        return None
    rejected, by = pair.chosen, "twin"
    if pair.meta and pair.meta.chosen_by == "template":
        # The chosen template names the task of the other row, so fill it anew.
        rejected, by = helpful_template(twin.row.prompt, twin.row.language) or rejected, "template"
    meta = _build_meta(twin, run, run.manifest.target.name, by)
    return twin, PreferencePair(prompt=twin.row.prompt, chosen=answer, rejected=rejected, meta=meta)


def _choose_answer(
    failure: _Failure, settings: RemedySettings, answers: Mapping[str, TargetAnswer]
) -> PreferredAnswer:
    row, why = failure.row, failure.why
    edit = settings.edits.get(row.id)
    if edit is not None:
        return verify_answer(row, why, TargetAnswer(row_id=row.id, text=edit), "edit")
    if why == "false_refusal" and settings.better is not None:
        return verify_answer(row, why, answers[row.id], f"better:{settings.better.name}")
    return template_answer(row, why)
