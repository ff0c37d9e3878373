"""Rows and pairs from production: decisions that people labelled as wrong.

A `false_refusal` becomes a legitimate row, a `missed_harm` a harmful one, under the decision's
id. Text that looks like a secret or personal data is removed; erased decisions are counted and
stay erased.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from demur.codes.default import default_registry
from demur.detect.fold import fold
from demur.detect.language import language_of
from demur.detect.lexicon import builtin_lexicon
from demur.errors import InputError
from demur.evals.answer import Answer
from demur.evals.leaks import TEST_SHARE, NearText, half_of, normal, share_of
from demur.evals.pairs import LeftOut, Meta, Pair, Why, distinct
from demur.evals.pairs_text import clean_text
from demur.evals.remediate_edits import REVIEW, REVIEWS, edit_in
from demur.evals.remediate_words import (
    going_along,
    graceful_refusal,
    helpful_template,
    refusal_code,
)
from demur.evals.score import score_answer
from demur.evals.suite_row import Label as Side
from demur.evals.suite_row import Row
from demur.gate.redaction import DEFAULT, redact
from demur.model.record import DecisionRecord
from demur.respond.compose import compose
from demur.store.rows import Label
from demur.store.store import Store

__all__ = ["FromStore", "from_store"]

SOURCE = "store"
_GOOD = "good"
_SIDES: dict[str, tuple[Why, Side]] = {
    "false_refusal": ("false_refusal", "legitimate"),
    "missed_harm": ("missed_harm", "harmful"),
}
_CODE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_CONTENT = "content_"


class FromStore(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to test on, pairs to train on, the number of labels, and the skipped rows."""

    labels: int
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class _Case(NamedTuple):
    """A labelled decision as a row, with the material for its pair."""

    row: Row
    why: Why
    label: Label
    record: DecisionRecord


def from_store(
    store: Store,
    *,
    tenant: str | None = None,
    since: str = "",
    pairs: bool = False,
    test_share: float = TEST_SHARE,
    tested: Iterable[Row] = (),
) -> FromStore:
    """Return the rows, and optionally pairs, from the labels since a time.

    With `pairs`, the decisions are split: rows come from the test half, pairs from the training
    half, and no pair is near a test row. Of two reviews of a decision, the later one counts.

    Raises:
        InputError: The share is not between 0 and 1.
    """
    share_of(test_share)
    left_out: list[LeftOut] = []
    labels = _reviews(store, tenant, since)
    cases = list(_agreeing(list(_cases(store, labels, tenant, left_out)), left_out))
    if not pairs:
        rows = tuple(case.row for case in cases)
        return FromStore(labels=len(labels), rows=rows, left_out=tuple(left_out))
    rows = tuple(case.row for case in cases if half_of(case.row, test_share) == "test")
    others = [case for case in cases if half_of(case.row, test_share) == "train"]
    made = _pairs(others, NearText((row.id, row.prompt) for row in (*rows, *tested)), left_out)
    return FromStore(
        labels=len(labels),
        rows=rows,
        pairs=tuple(distinct(made, left_out)),
        left_out=tuple(left_out),
    )


def _reviews(store: Store, tenant: str | None, since: str) -> list[Label]:
    """Return the latest review of each decision, unless it says that nothing was wrong."""
    latest: dict[str, Label] = {}
    for label in store.labelled(REVIEW, (*REVIEWS, _GOOD), tenant=tenant, since=since):
        latest[label.decision_id] = label
    return [label for label in latest.values() if label.value != _GOOD]


def _cases(
    store: Store, labels: Iterable[Label], tenant: str | None, left_out: list[LeftOut]
) -> Iterator[_Case]:
    for label in labels:
        record = store.get(label.decision_id, tenant)
        if record is None:
            left_out.append(LeftOut(label.decision_id, "gone", "the decision is not in the store"))
            continue
        prompt = _prompt(record)
        if isinstance(prompt, LeftOut):
            left_out.append(prompt)
            continue
        why, side = _SIDES[label.value]
        row = Row(
            id=record.decision_id,
            prompt=prompt,
            label=side,
            category=_category(record, label),
            domain=record.action_type[:200],
            language=language_of(fold(prompt), builtin_lexicon().common) or "en",
            source=SOURCE,
        )
        yield _Case(row, why, label, record)


def _prompt(record: DecisionRecord) -> str | LeftOut:
    """Return the prompt without secrets, or the reason why there is none."""
    name = record.decision_id
    try:
        personal = record.personal
    except InputError as error:
        return LeftOut(name, "unreadable", error.problem)
    if personal is None:
        return LeftOut(name, "erased", "the request was erased")
    action = redact(personal.request, DEFAULT).request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    clean = clean_text(intent) if isinstance(intent, str) else ""
    return clean or LeftOut(name, "no prompt", "the action of the request has no `intent`")


def _category(record: DecisionRecord, label: Label) -> str:
    """Return the category of the first registered code in the reviewer's note or the decision."""
    registry = default_registry()
    codes = (*_CODE.findall(label.note), *record.reason_codes)
    code = next((code for code in codes if code in registry), "")
    return code.casefold().removeprefix(_CONTENT)[:200]


def _agreeing(cases: list[_Case], left_out: list[LeftOut]) -> Iterator[_Case]:
    """Yield each prompt once, and skip prompts whose labels contradict each other."""
    sides: dict[str, set[str]] = {}
    for case in cases:
        sides.setdefault(normal(case.row.prompt), set()).add(case.row.label)
    seen: set[str] = set()
    for case in cases:
        prompt = normal(case.row.prompt)
        if len(sides[prompt]) > 1:
            left_out.append(LeftOut(case.row.id, "conflict", "labels of this prompt contradict"))
        elif prompt in seen:
            left_out.append(
                LeftOut(case.row.id, "duplicate", "another decision has the same prompt")
            )
        else:
            seen.add(prompt)
            yield case


def _pairs(cases: Iterable[_Case], near: NearText, left_out: list[LeftOut]) -> Iterator[Pair]:
    for case in cases:
        name, prompt = case.row.id, case.row.prompt
        if leak := near.find(prompt):
            left_out.append(LeftOut(name, "leak", f"{leak}, which is tested on"))
            continue
        made = _pair(case)
        if isinstance(made, str):
            left_out.append(LeftOut(name, "no answer", made))
        else:
            yield made


def _pair(case: _Case) -> Pair | str:
    """Return the pair of a decision, or the reason why there is none."""
    row = case.row
    chosen, by = _chosen(case)
    if chosen is None:
        return by
    rejected, said_by = _rejected(case)
    if rejected is None:
        return said_by
    meta = Meta(
        row_id=row.id,
        why=case.why,
        chosen_by=by,
        rejected_by=said_by,
        run=SOURCE,
        category=row.category,
        language=row.language,
    )
    return Pair(prompt=row.prompt, chosen=chosen, rejected=rejected, meta=meta)


def _chosen(case: _Case) -> tuple[str | None, str]:
    """Return the answer to prefer and its author, or None and the reason."""
    row = case.row
    edit = edit_in(case.label.note)
    if edit is not None:
        wanted = "complied" if case.why == "false_refusal" else "refused"
        outcome = score_answer(row, Answer(row_id=row.id, text=edit)).outcome
        return (edit, "edit") if outcome == wanted else (None, f"the edit is {outcome}")
    if case.why == "missed_harm":
        text, by = graceful_refusal(refusal_code(row.category), row.language), "refusal"
    else:
        text, by = helpful_template(row.prompt, row.language), "template"
    return text, by if text else f"no {by} is written in `{row.language}`"


def _rejected(case: _Case) -> tuple[str | None, str]:
    """Return the answer to avoid: the refusal's own words, or a compliant template."""
    if case.why == "missed_harm":
        text = going_along(case.row.prompt, case.row.language)
        return text, "template" if text else f"no template is written in `{case.row.language}`"
    try:
        return clean_text(compose(case.record, locale=case.row.language).text), "demur"
    except InputError:
        return None, "nothing was refused"
