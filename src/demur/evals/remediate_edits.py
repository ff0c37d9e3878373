"""Answers that people wrote in place of a model's: from a file, or from notes in a store.

A file holds one JSON object a line, `{"id": ..., "chosen": ...}`. A note that begins with
`answer:` holds the answer that should have been given; other notes are remarks.
"""

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import msgspec

from demur.errors import ManyProblemsError, Problem
from demur.evals.pairs_text import clean_text
from demur.store.store import Store

__all__ = [
    "ANSWER_PREFIX",
    "REVIEW_LABEL",
    "REVIEW_VALUES",
    "EditsError",
    "parse_note",
    "read_store_edits",
    "read_edits",
]

ANSWER_PREFIX = "answer:"
REVIEW_LABEL = "review"
REVIEW_VALUES = ("false_refusal", "missed_harm")
_MAX_PROBLEMS = 20


class EditsError(ManyProblemsError):
    """A file of edits that cannot be used; `problems` lists every problem."""


def read_edits(path: Path | str, known: Container[str]) -> Mapping[str, str]:
    """Return answers by row id; of two for a row, the later one.

    Raises:
        EditsError: The file cannot be read, or some lines are not answers to known rows.
    """
    edits: dict[str, str] = {}
    problems: list[Problem] = []
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    found = _parse_edit(line, known)
                    if isinstance(found, str):
                        problems.append(Problem(f"{path}:{number}", found))
                    else:
                        edits[found[0]] = found[1]
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise EditsError.from_problems(
            [Problem(str(path), f"cannot read the edits: {reason}")]
        ) from error
    if problems:
        raise EditsError.from_problems(problems[:_MAX_PROBLEMS])
    return edits


def _parse_edit(line: bytes, known: Container[str]) -> tuple[str, str] | str:
    """Return a row id and its answer, or the problem of the line."""
    try:
        value: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "not JSON"
    fields = value if isinstance(value, dict) else {}
    row_id, chosen = fields.get("id"), fields.get("chosen")
    if not isinstance(row_id, str) or not isinstance(chosen, str) or not chosen.strip():
        return "an edit needs an `id` and a `chosen` answer, both strings"
    if row_id not in known:
        return f"`{row_id[:60]}` is not a row of this run"
    return row_id, clean_text(chosen)


def parse_note(note: str) -> str | None:
    """Return the answer in a note, without secrets, or None if the note holds none."""
    begin = note.lstrip()
    if not begin.casefold().startswith(ANSWER_PREFIX):
        return None
    return clean_text(begin[len(ANSWER_PREFIX) :]) or None


def read_store_edits(
    store: Store, known: Container[str], *, tenant: str | None = None
) -> Mapping[str, str]:
    """Return the answers in review notes by decision id; the latest note counts."""
    edits: dict[str, str] = {}
    for label in store.find_labels(REVIEW_LABEL, REVIEW_VALUES, tenant=tenant):
        edit = parse_note(label.note)
        if edit is not None and label.decision_id in known:
            edits[label.decision_id] = edit
    return edits
