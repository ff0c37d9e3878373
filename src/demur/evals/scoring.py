"""Score a run: judge every answer, then apply the verdicts of people and of a judge model.

The scores are kept in `scores.jsonl`, in the order of the answers. They are computed again only if
the answers, the labels, the judge's verdicts or demur's version changed. Only a few batches are in
memory at a time.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from demur.errors import InputError, error_reason
from demur.evals.line_files import replace_file, write_json
from demur.evals.rates import Agreement, measure_agreement
from demur.evals.run_files import RunError
from demur.evals.run_folder import ANSWERS_FILE, EvalRun, RowIndex
from demur.evals.score import (
    AnswerScore,
    Outcome,
    decode_score,
    encode_score,
    score_answer,
    with_quality,
    with_warnings,
)
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer
from demur.evals.verdicts import JUDGE_FILE, LABELS_FILE, read_kept_labels, read_verdicts
from demur.version import __version__

SCORES_FILE = "scores.jsonl"
SCORING_FILE = "scoring.json"
DecideBy = Literal["detect", "judge"]

_BATCH_SIZE = 200
# Below this, starting processes takes longer than scoring.
_MIN_PARALLEL_ANSWERS = 2_000
_AnsweredRow = tuple[EvalRow, TargetAnswer]


class RunScoring(msgspec.Struct, frozen=True, kw_only=True):
    """How the scores of a run were made; `agreement` compares each judge with the program."""

    schema_version: Literal["eval_scoring.v1"] = "eval_scoring.v1"
    fingerprint: str
    decide_by: DecideBy
    agreement: tuple[Agreement, ...] = ()


class _Overrides(NamedTuple):
    """Outcomes by people and by a judge model, which override the program."""

    human: Mapping[str, Outcome]
    judge: Mapping[str, Outcome]
    decide_by: DecideBy


def score_run(
    run: EvalRun, *, decide_by: DecideBy | None = None, workers: int = 1, fresh: bool = False
) -> RunScoring:
    """Score a run, write the scores to its folder, and return how they were made.

    `decide_by` says whether a judge's verdicts count; None keeps the earlier choice. More than
    one worker needs an importable main module.

    Raises:
        RunError: The run cannot be read, or scores cannot be written.
        InputError: `workers` is below 1.
    """
    if workers < 1:
        raise InputError(f"`workers` must be at least 1, not `{workers}`")
    kept = _read_scoring(run)
    chosen = decide_by or (kept.decide_by if kept else "detect")
    fingerprint = _fingerprint(run, chosen)
    if not fresh and kept is not None and kept.fingerprint == fingerprint:
        return kept
    voices = _Overrides(read_kept_labels(run), read_verdicts(run), chosen)
    agreement = _write_scores(run, voices, workers)
    scoring = RunScoring(fingerprint=fingerprint, decide_by=chosen, agreement=agreement)
    write_json(run.folder / SCORING_FILE, scoring, "the scoring", RunError)
    return scoring


def read_scores(run: EvalRun) -> Iterator[AnswerScore]:
    """Yield the scores of a scored run one at a time.

    Raises:
        RunError: They cannot be read.
    """
    path = run.folder / SCORES_FILE
    try:
        with path.open("rb") as file:
            for line in file:
                yield decode_score(line)
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"cannot read the scores: {error_reason(error)}"
        help_text = "`demur eval report --rescore` makes them again"
        raise RunError(problem, where=str(path), help=help_text) from error


def score_answers(
    pairs: Iterator[_AnsweredRow], *, workers: int = 1
) -> Iterator[tuple[AnswerScore, str]]:
    """Yield scores in order, each with its answer's text, computed by `workers` processes."""
    batches = iter(lambda: list(islice(pairs, _BATCH_SIZE)), [])
    if workers == 1:
        for batch in batches:
            yield from zip(_score_batch(batch), (answer.text for _, answer in batch), strict=True)
        return
    context = import_module("multiprocessing").get_context("spawn")
    waiting: deque[tuple[Future[bytes], list[str]]] = deque()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        while True:
            # Limit the batches in flight, however many there are.
            for batch in islice(batches, 3 * workers - len(waiting)):
                texts = [answer.text for _, answer in batch]
                waiting.append((pool.submit(_score_encoded, msgspec.msgpack.encode(batch)), texts))
            if not waiting:
                return
            done, texts = waiting.popleft()
            scores = msgspec.msgpack.decode(done.result(), type=list[AnswerScore])
            yield from zip(scores, texts, strict=True)


def _score_encoded(batch: bytes) -> bytes:
    rows = msgspec.msgpack.decode(batch, type=list[_AnsweredRow])
    return msgspec.msgpack.encode(_score_batch(rows))


def _score_batch(batch: list[_AnsweredRow]) -> list[AnswerScore]:
    return [
        with_warnings(with_quality(score_answer(row, answer), answer.text), answer)
        for row, answer in batch
    ]


def _write_scores(run: EvalRun, overrides: _Overrides, workers: int) -> tuple[Agreement, ...]:
    """Write the scores atomically; return how the overrides agree with the program."""
    pairs: dict[str, Counter[tuple[str, str]]] = {"judge": Counter(), "human": Counter()}
    many = workers if _has_more_lines(run.folder / ANSWERS_FILE, _MIN_PARALLEL_ANSWERS) else 1
    path = run.folder / SCORES_FILE
    with replace_file(path, "the scores", RunError) as file, RowIndex(run) as rows:
        for score, text in score_answers(_answered_rows(run, rows), workers=many):
            for name, outcomes in (("judge", overrides.judge), ("human", overrides.human)):
                if score.row_id in outcomes:
                    pairs[name][score.outcome, outcomes[score.row_id]] += 1
            file.write(encode_score(_apply_overrides(score, text, overrides)) + b"\n")
    return tuple(measure_agreement("program", name, pairs[name]) for name in pairs if pairs[name])


def _answered_rows(run: EvalRun, rows: RowIndex) -> Iterator[_AnsweredRow]:
    """Yield each answer with its row; of two to a row, the first."""
    seen: set[str] = set()
    for answer in run.iter_answers():
        if answer.row_id not in seen:
            seen.add(answer.row_id)
            yield rows[answer.row_id], answer


def _apply_overrides(score: AnswerScore, text: str, overrides: _Overrides) -> AnswerScore:
    """Return the final score: people override a judge, a judge overrides the program."""
    judged = overrides.judge.get(score.row_id) if overrides.decide_by == "judge" else None
    if score.row_id in overrides.human:
        outcome, by = overrides.human[score.row_id], "human"
    elif judged is not None and judged != "unjudged":
        outcome, by = judged, "judge"
    else:
        return score
    same = outcome == score.outcome
    fields = {
        "row_id": score.row_id,
        "outcome": outcome,
        "by": by,
        "confidence": 0.0 if outcome == "unjudged" else 1.0,
        "code": score.code if same else None,
        "detail": score.detail if same else "",
        "warnings": score.warnings,
    }
    return with_quality(msgspec.convert(fields, AnswerScore), text)


def _read_scoring(run: EvalRun) -> RunScoring | None:
    try:
        kept = msgspec.json.decode((run.folder / SCORING_FILE).read_bytes(), type=RunScoring)
    except (OSError, msgspec.MsgspecError):
        return None
    return kept if (run.folder / SCORES_FILE).exists() else None


def _fingerprint(run: EvalRun, decide_by: DecideBy) -> str:
    """Return a digest of everything that scores depend on."""
    total = hashlib.sha256(f"{__version__} {decide_by}".encode())
    for name in (ANSWERS_FILE, LABELS_FILE, JUDGE_FILE):
        path = run.folder / name
        total.update(f"\n{name} ".encode())
        if path.exists():
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{total.hexdigest()}"


def _has_more_lines(path: Path, lines: int) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return next(islice(file, lines, None), None) is not None
