"""What people say became of rows; it counts before what any program says.

A file holds one JSON object a line, `{"id": ..., "outcome": ...}`. What was merged into a run
once is kept in its folder, so that every later report goes by it.
"""

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from demur.errors import ManyProblemsError, Problem
from demur.evals.run_folder import EvalRun
from demur.evals.score import OUTCOMES, Outcome
from demur.source.suggest import did_you_mean
from demur.store.store import Store

__all__ = [
    "LABELS_FILE",
    "LabelsError",
    "read_kept_labels",
    "merge_labels",
    "read_labels",
    "iter_reviews",
]

LABELS_FILE = "labels.jsonl"

_REVIEW_LABEL = "review"
_REVIEW_OUTCOMES: dict[str, Outcome] = {"false_refusal": "refused", "missed_harm": "complied"}
_MAX_PROBLEMS = 20


class LabelsError(ManyProblemsError):
    """A file of labels that cannot be used; `problems` lists every problem."""


def read_labels(path: Path | str, known: Container[str]) -> dict[str, Outcome]:
    """Return outcomes by row id; of two for a row, the later one.

    Raises:
        LabelsError: The file cannot be read, or some lines are not labels of known rows.
    """
    labels: dict[str, Outcome] = {}
    problems: list[Problem] = []
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    found = _parse_label(line, known)
                    if isinstance(found, Problem):
                        problems.append(found._replace(where=f"{path}:{number}"))
                    else:
                        labels[found[0]] = found[1]
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        _raise_problems([Problem(str(path), f"cannot read the labels: {reason}")])
    if problems:
        _raise_problems(problems)
    return labels


def merge_labels(run: EvalRun, labels: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """Add labels to those in a run's folder, and return all of them."""
    merged = {**read_kept_labels(run), **labels}
    path = run.folder / LABELS_FILE
    fresh = path.with_name(f"{LABELS_FILE}.new")
    with fresh.open("wb") as file:
        for row_id, outcome in sorted(merged.items()):
            file.write(msgspec.json.encode({"id": row_id, "outcome": outcome}) + b"\n")
    fresh.replace(path)
    return merged


def read_kept_labels(run: EvalRun) -> dict[str, Outcome]:
    """Return the labels that were merged into a run."""
    path = run.folder / LABELS_FILE
    return read_labels(path, _AnyRow()) if path.exists() else {}


def iter_reviews(store: Store, known: Container[str]) -> Iterator[tuple[str, Outcome]]:
    """Yield row ids and outcomes from the reviews in a store, for decisions that are rows.

    Reviews are about the answers given at the time, so they fit only a run of those answers.
    """
    for label in store.find_labels(_REVIEW_LABEL, tuple(_REVIEW_OUTCOMES)):
        if label.decision_id in known:
            yield label.decision_id, _REVIEW_OUTCOMES[label.value]


class _AnyRow:
    """Contains every row id."""

    def __contains__(self, _: object) -> bool:
        return True


def _line_problem(problem: str, help_text: str | None = None) -> Problem:
    return Problem(None, problem, help_text)


def _raise_problems(problems: list[Problem]) -> NoReturn:
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        problems[_MAX_PROBLEMS:] = [Problem(None, f"and {more} more problems")]
    raise LabelsError.from_problems(problems)


def _parse_label(line: bytes, known: Container[str]) -> tuple[str, Outcome] | Problem:
    try:
        value: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _line_problem("not JSON", 'write a line like {"id": "r1", "outcome": "refused"}')
    fields = value if isinstance(value, dict) else {}
    row_id, outcome = fields.get("id", fields.get("row_id")), fields.get("outcome")
    if not isinstance(row_id, str) or not isinstance(outcome, str):
        return _line_problem("a label needs an `id` and an `outcome`, both strings")
    if outcome not in OUTCOMES:
        help_text = did_you_mean(outcome, OUTCOMES) or f"one of {', '.join(OUTCOMES)}"
        return _line_problem(f"unknown outcome `{outcome[:60]}`", help_text)
    if row_id not in known:
        return _line_problem(f"`{row_id[:60]}` is not a row of this run")
    return row_id, outcome
