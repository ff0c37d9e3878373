"""Turn the mistakes of a run into preference pairs that repair them.

A refused legitimate request gets a helpful answer to prefer; an answered harmful request gets a
graceful refusal. Test rows never become pairs, and each failed row without a pair is listed with
the reason.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from demur.evals.answer import Answer
from demur.evals.leaks import TEST_SHARE, NearText, half_of, share_of
from demur.evals.pairs import LeftOut, Meta, Pair, Why, balanced, distinct
from demur.evals.pairs_text import clean_text
from demur.evals.remediate_words import graceful_refusal, helpful_template, refusal_code
from demur.evals.row_index import RowIndex
from demur.evals.run import Run, answer_row
from demur.evals.score import Score, is_right, score_answer
from demur.evals.scoring import read_scores, score_run
from demur.evals.suite_row import Row
from demur.evals.target import Target

__all__ = ["Remedy", "Settings", "remediate"]

_WHY: dict[str, Why] = {"legitimate": "false_refusal", "harmful": "missed_harm"}
_KEPT: dict[str, Why] = {"legitimate": "kept_help", "harmful": "kept_refusal"}
_WRONG = {"legitimate": ("refused",), "harmful": ("complied",)}


class Settings(NamedTuple):
    """How pairs are made.

    `split` uses only the training half; without it, every row counts as a test row. `edits` are
    answers by row id. Rows without an edit are answered by `better`, or by a template if there is
    no better target. `partials` also repairs partial refusals. `anchors` adds the twin of each
    mistake if it went right, so that training does not break it.
    """

    split: bool = True
    test_share: float = TEST_SHARE
    edits: Mapping[str, str] = {}
    better: Target | None = None
    partials: bool = False
    anchors: bool = False
    balance: bool = False
    concurrency: int = 8


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs, the number of failures by reason, and the skipped rows."""

    pairs: tuple[Pair, ...]
    wrong: dict[str, int]
    left_out: tuple[LeftOut, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of pairs by reason and by author."""
        every: Counter[str] = Counter()
        for meta in filter(None, (pair.meta for pair in self.pairs)):
            every[meta.why] += 1
            every[f"chosen by {meta.chosen_by}"] += 1
        return dict(sorted(every.items()))

    def reasons(self) -> dict[str, int]:
        """Return the number of skipped rows by kind of reason."""
        return dict(Counter(one.kind for one in self.left_out).most_common())


class _Failure(NamedTuple):
    """A row, the reason for its pair, and the answer that was given."""

    row: Row
    why: Why
    said: str


class _Seen(NamedTuple):
    """The failed rows of a run in the order of the suite, and their twins that went right."""

    failures: list[_Failure]
    right: Mapping[str, _Failure]


async def remediate(
    run: Run, *, tested: Iterable[Row] = (), settings: Settings | None = None
) -> Remedy:
    """Return the pairs that repair the mistakes of a run.

    `test_rows` are rows of further suites to test on; the run's own rows always count. With
    `split`, only rows in the test half count. The better target stays open.

    Raises:
        RunError: The run cannot be read or scored.
        InputError: The share is not between 0 and 1.
    """
    given = Settings() if settings is None else settings
    share_of(given.test_share)
    left_out: list[LeftOut] = []
    seen = _seen(run, given)
    wrong: Counter[str] = Counter(failure.why for failure in seen.failures)
    untested = _untested(run, tested, given, left_out)
    fit = [failure for failure in seen.failures if untested(failure)]
    answers = await _better_answers(fit, given)
    pairs = [pair for one in fit if (pair := _pair(one, run, given, answers, left_out))]
    kept: Iterable[Pair] = list(distinct(pairs, left_out))
    if given.anchors:
        twins = {one.row.id: one.row.twin for one in fit}
        made = (_anchor(pair, seen.right.get(twins[_id(pair)] or ""), run) for pair in kept)
        anchors = [(one, pair) for one, pair in filter(None, made) if untested(one)]
        kept = [*kept, *distinct((pair for _, pair in anchors), left_out)]
    if given.balance:
        kept = balanced(kept, left_out)
    return Remedy(pairs=tuple(kept), wrong=dict(wrong), left_out=tuple(left_out))


def _seen(run: Run, given: Settings) -> _Seen:
    """Return the failed rows and, for anchors, the twins that went right."""
    score_run(run)
    with RowIndex(run) as rows:
        wrong: set[str] = set()
        right: set[str] = set()
        for score in read_scores(run):
            row = rows[score.row_id]
            if _is_wrong(row, score, given):
                wrong.add(row.id)
            elif given.anchors and row.twin is not None and is_right(row, score.outcome):
                right.add(row.id)
        right &= {rows[name].twin or "" for name in wrong}
        said: dict[str, str] = {}
        for answer in run.answers():
            if answer.row_id in wrong or answer.row_id in right:
                said.setdefault(answer.row_id, answer.text)
        failures = [_Failure(row, _WHY[row.label], said[row.id]) for row in rows if row.id in wrong]
        kept = {name: _Failure(rows[name], _KEPT[rows[name].label], said[name]) for name in right}
        return _Seen(failures, kept)


def _is_wrong(row: Row, score: Score, given: Settings) -> bool:
    return score.outcome in _WRONG[row.label] or (given.partials and score.outcome == "partial")


def _untested(
    run: Run, tested: Iterable[Row], given: Settings, left_out: list[LeftOut]
) -> Callable[[_Failure], bool]:
    """Return a filter for rows that are not near a test row; it records the skipped ones."""
    near = NearText()
    for rows in (run.rows(), tested):
        for row in rows:
            if not given.split or half_of(row, given.test_share) == "test":
                near.add(row.id, row.prompt)

    def fits(failure: _Failure) -> bool:
        row = failure.row
        if given.split and half_of(row, given.test_share) == "test":
            left_out.append(LeftOut(row.id, "test half", "the row is in the test half"))
            return False
        # INVARIANT: no pair has the prompt of a row that is tested on.
        leak = near.find(row.prompt)
        if leak is not None:
            left_out.append(LeftOut(row.id, "leak", f"{leak}, which is tested on"))
        return leak is None

    return fits


async def _better_answers(fit: Iterable[_Failure], given: Settings) -> Mapping[str, Answer]:
    """Return the better target's answers to legitimate requests without an edit."""
    better = given.better
    if better is None:
        return {}
    rows = iter(
        [one.row for one in fit if one.why == "false_refusal" and one.row.id not in given.edits]
    )
    answers: dict[str, Answer] = {}

    async def ask_on() -> None:
        for row in rows:
            answers[row.id] = await answer_row(better, row)

    await asyncio.gather(*(ask_on() for _ in range(max(1, given.concurrency))))
    return answers


class _Chosen(NamedTuple):
    """The answer to prefer and its author; without a text, `by` is the reason."""

    text: str | None
    by: str


def _pair(
    failure: _Failure,
    run: Run,
    given: Settings,
    answers: Mapping[str, Answer],
    left_out: list[LeftOut],
) -> Pair | None:
    row = failure.row
    rejected = clean_text(failure.said)
    if not rejected:
        left_out.append(LeftOut(row.id, "no words", "the answer to avoid is empty"))
        return None
    chosen = _chosen(failure, given, answers)
    if chosen.text is None:
        left_out.append(LeftOut(row.id, "no answer", chosen.by))
        return None
    meta = _meta(failure, run, chosen.by, run.manifest.target.name)
    return Pair(prompt=row.prompt, chosen=chosen.text, rejected=rejected, meta=meta)


def _meta(failure: _Failure, run: Run, chosen_by: str, rejected_by: str) -> Meta:
    row, suite = failure.row, run.manifest.suite
    return Meta(
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


def _id(pair: Pair) -> str:
    return pair.meta.row_id if pair.meta else ""


def _anchor(pair: Pair, twin: _Failure | None, run: Run) -> tuple[_Failure, Pair] | None:
    """Return the pair that keeps a twin right: it prefers the twin's own answer."""
    if twin is None or not (said := clean_text(twin.said)):
        return None
    rejected, by = pair.chosen, "twin"
    if pair.meta and pair.meta.chosen_by == "template":
        # The chosen template names the task of the other row, so fill it anew.
        rejected, by = helpful_template(twin.row.prompt, twin.row.language) or rejected, "template"
    meta = _meta(twin, run, run.manifest.target.name, by)
    return twin, Pair(prompt=twin.row.prompt, chosen=said, rejected=rejected, meta=meta)


def _chosen(failure: _Failure, given: Settings, answers: Mapping[str, Answer]) -> _Chosen:
    row, why = failure.row, failure.why
    edit = given.edits.get(row.id)
    if edit is not None:
        return _checked(row, why, Answer(row_id=row.id, text=edit), "edit")
    if why == "missed_harm":
        text = graceful_refusal(refusal_code(row.category), row.language)
        return _Chosen(text, "refusal" if text else f"no refusal is written in `{row.language}`")
    if given.better is not None:
        return _checked(row, why, answers[row.id], f"better:{given.better.name}")
    text = helpful_template(row.prompt, row.language)
    return _Chosen(text, "template" if text else f"no template is written in `{row.language}`")


def _checked(row: Row, why: Why, answer: Answer, by: str) -> _Chosen:
    """Return the answer if its outcome is the wanted one, otherwise the reason."""
    outcome = score_answer(row, answer).outcome
    text = clean_text(answer.text)
    wanted = "complied" if why == "false_refusal" else "refused"
    if text and outcome == wanted:
        return _Chosen(text, by)
    why_not = f"error: {answer.error}" if answer.error else f"it is {outcome}, not {wanted}"
    return _Chosen(None, f"{by}: {why_not}")
