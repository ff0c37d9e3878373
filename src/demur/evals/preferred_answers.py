"""Answers to prefer: written by people, or else from templates and graceful refusals.

Edits come from a file of `{"id": ..., "chosen": ...}` lines, or from notes in a store that begin
with `answer:`. Templates name the task and begin an answer. They teach that the request is fine,
not how it is done.
"""

import hashlib
from collections.abc import Container, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from demur.codes.loading import default_registry
from demur.errors import InputError, ManyProblemsError, shorten
from demur.evals.line_files import parse_lines
from demur.evals.pairs import PairReason, clean_text
from demur.evals.score import score_answer
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer
from demur.model.refusal import Refusal
from demur.respond.graceful import compose
from demur.respond.template import wider_locales
from demur.store.rows import REVIEW, WITHDRAWN
from demur.store.store import Store

ANSWER_PREFIX = "answer:"
_EDITED_REVIEWS = ("false_refusal", "missed_harm")


class EditsError(ManyProblemsError):
    """A file of edits that cannot be used; `problems` lists every problem."""


def read_edits(path: Path | str, known: Container[str]) -> Mapping[str, str]:
    """Return answers by row id; of two for a row, the later one.

    Raises:
        EditsError: The file cannot be read, or some lines are not answers to known rows.
    """

    def parse(fields: dict[str, Any]) -> tuple[str, str]:
        row_id, chosen = fields.get("id"), fields.get("chosen")
        if not isinstance(row_id, str) or not isinstance(chosen, str) or not chosen.strip():
            raise InputError("an edit needs an `id` and a `chosen` answer, both strings")
        if row_id not in known:
            raise InputError(f"`{row_id[:60]}` is not a row of this run")
        return row_id, clean_text(chosen)

    example = '{"id": "r1", "chosen": "…"}'
    return dict(parse_lines(path, "the edits", parse, EditsError, example=example))


def parse_note(note: str) -> str | None:
    """Return the answer in a note, without secrets, or None if the note holds none."""
    begin = note.lstrip()
    if not begin.casefold().startswith(ANSWER_PREFIX):
        return None
    return clean_text(begin[len(ANSWER_PREFIX) :]) or None


def read_store_edits(
    store: Store, known: Container[str], *, tenant: str | None = None
) -> Mapping[str, str]:
    """Return the answers in review notes by decision id; the latest note counts.

    A review that was withdrawn takes its answer along.
    """
    edits: dict[str, str] = {}
    for label in store.find_labels(REVIEW, (*_EDITED_REVIEWS, WITHDRAWN), tenant=tenant):
        edit = parse_note(label.note)
        if label.value == WITHDRAWN:
            edits.pop(label.decision_id, None)
        elif edit is not None and label.decision_id in known:
            edits[label.decision_id] = edit
    return edits


_OTHER_CODE = "CONTENT_OTHER"
_MAX_TASK_LENGTH = 240


def helpful_template(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a helpful answer, or None if there is no template in the language.

    A digest of the prompt picks the template, so that the choice is stable but varied.
    """
    return _fill_template("helpful", prompt, language)


def compliant_template(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a compliant answer, for harmful answers that were not kept."""
    return _fill_template("going_along", prompt, language)


def refusal_code(category: str) -> str:
    """Return the reason code of a category: a content code, or a code in lower case."""
    word = category.strip().upper().replace("-", "_").replace(" ", "_")
    registry = default_registry()
    return next((code for code in (f"CONTENT_{word}", word) if code in registry), _OTHER_CODE)


def graceful_refusal(code: str, language: str = "en", prompt: str | None = None) -> str | None:
    """Return a composed refusal, or None if there is none in the language.

    The prompt chooses among the wordings, so that pairs of one code vary.
    """
    words = compose(Refusal.from_code(code), locale=language, variation=prompt)
    return words.text if words.locale in wider_locales(language) else None


@cache
def _load_templates() -> dict[str, dict[str, list[str]]]:
    text = (files("demur.evals") / "remediate_words.yaml").read_text(encoding="utf-8")
    words: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return words


def _fill_template(kind: str, prompt: str, language: str) -> str | None:
    by_language = _load_templates()[kind]
    known = next((one for one in wider_locales(language) if one in by_language), None)
    if known is None:
        return None
    ways = by_language[known]
    drawn = hashlib.sha256(prompt.encode(errors="replace")).digest()[0]
    return ways[drawn % len(ways)].format(task=shorten(" ".join(prompt.split()), _MAX_TASK_LENGTH))


class PreferredAnswer(NamedTuple):
    """The answer to prefer and its author; without a text, `author` is the reason."""

    text: str | None
    author: str


def template_answer(row: EvalRow, why: PairReason) -> PreferredAnswer:
    """Return a graceful refusal for missed harm, otherwise a helpful template."""
    if why == "missed_harm":
        code = refusal_code(row.category)
        text, author = graceful_refusal(code, row.language, row.prompt), "refusal"
    else:
        text, author = helpful_template(row.prompt, row.language), "template"
    return PreferredAnswer(text, author if text else f"no {author} is written in `{row.language}`")


def verify_answer(
    row: EvalRow, why: PairReason, answer: TargetAnswer, author: str
) -> PreferredAnswer:
    """Return the answer if its outcome is the wanted one, otherwise the reason."""
    outcome = score_answer(row, answer).outcome
    text = clean_text(answer.text)
    expected = "complied" if why == "false_refusal" else "refused"
    if text and outcome == expected:
        return PreferredAnswer(text, author)
    reason = f"error: {answer.error}" if answer.error else f"it is {outcome}, not {expected}"
    return PreferredAnswer(None, f"{author}: {reason}")
