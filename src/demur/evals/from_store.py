"""Rows and pairs from production: decisions that people labelled as wrong.

A `false_refusal` becomes a legitimate row, a `missed_harm` a harmful one, under the decision's
id. Text that looks like a secret or personal data is removed; erased decisions are counted and
stay erased.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from demur.codes.loading import default_registry
from demur.detect.speech_acts import builtin_lexicon
from demur.errors import InputError
from demur.evals.leaks import TEST_SHARE, NearTextIndex, check_share, half_of, normalize_text
from demur.evals.pairs import (
    PairMeta,
    PairReason,
    PreferencePair,
    SkippedRow,
    clean_text,
    drop_duplicates,
)
from demur.evals.preferred_answers import (
    REVIEW_LABEL,
    REVIEW_VALUES,
    compliant_template,
    parse_note,
    template_answer,
    verify_answer,
)
from demur.evals.suite_row import EvalRow
from demur.evals.suite_row import RowLabel as Side
from demur.evals.target import TargetAnswer
from demur.gate.redaction import DEFAULT_PROFILE, redact_request
from demur.model.record import DecisionRecord
from demur.respond.graceful import compose
from demur.store.rows import Label
from demur.store.store import Store
from demur.text.prose import fold_sentence, guess_language

SOURCE = "store"
_GOOD_LABEL = "good"
_SIDE_OF_REVIEW: dict[str, tuple[PairReason, Side]] = {
    "false_refusal": ("false_refusal", "legitimate"),
    "missed_harm": ("missed_harm", "harmful"),
}
_CODE_PATTERN = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_CONTENT_PREFIX = "content_"


class StoreSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to test on, pairs to train on, the number of labels, and the skipped rows."""

    labels: int
    rows: tuple[EvalRow, ...]
    pairs: tuple[PreferencePair, ...] = ()
    left_out: tuple[SkippedRow, ...] = ()


class _Case(NamedTuple):
    """A labelled decision as a row, with the material for its pair."""

    row: EvalRow
    why: PairReason
    label: Label
    record: DecisionRecord


def collect_from_store(
    store: Store,
    *,
    tenant: str | None = None,
    since: str = "",
    pairs: bool = False,
    test_share: float = TEST_SHARE,
    test_rows: Iterable[EvalRow] = (),
) -> StoreSamples:
    """Return the rows, and optionally pairs, from the labels since a time.

    With `pairs`, the decisions are split: rows come from the test half, pairs from the training
    half, and no pair is near a test row. Of two reviews of a decision, the later one counts.

    Raises:
        InputError: The share is not between 0 and 1.
    """
    check_share(test_share)
    left_out: list[SkippedRow] = []
    labels = _latest_reviews(store, tenant, since)
    cases = list(_drop_conflicts(list(_build_cases(store, labels, tenant, left_out)), left_out))
    if not pairs:
        rows = tuple(case.row for case in cases)
        return StoreSamples(labels=len(labels), rows=rows, left_out=tuple(left_out))
    rows = tuple(case.row for case in cases if half_of(case.row, test_share) == "test")
    others = [case for case in cases if half_of(case.row, test_share) == "train"]
    near = NearTextIndex((row.id, row.prompt) for row in (*rows, *test_rows))
    built = tuple(drop_duplicates(_build_pairs(others, near, left_out), left_out))
    return StoreSamples(labels=len(labels), rows=rows, pairs=built, left_out=tuple(left_out))


def _latest_reviews(store: Store, tenant: str | None, since: str) -> list[Label]:
    """Return the latest review of each decision, unless it says that nothing was wrong."""
    values = (*REVIEW_VALUES, _GOOD_LABEL)
    labels = store.find_labels(REVIEW_LABEL, values, tenant=tenant, since=since)
    latest = {label.decision_id: label for label in labels}
    return [label for label in latest.values() if label.value != _GOOD_LABEL]


def _build_cases(
    store: Store, labels: Iterable[Label], tenant: str | None, left_out: list[SkippedRow]
) -> Iterator[_Case]:
    for label in labels:
        record = store.get(label.decision_id, tenant)
        if record is None:
            why_not = "the decision is not in the store"
            left_out.append(SkippedRow(label.decision_id, "gone", why_not))
            continue
        prompt = _extract_prompt(record)
        if isinstance(prompt, SkippedRow):
            left_out.append(prompt)
            continue
        why, side = _SIDE_OF_REVIEW[label.value]
        # The first registered code in the reviewer's note or the decision is the category.
        registry = default_registry()
        codes = (*_CODE_PATTERN.findall(label.note), *record.reason_codes)
        code = next((code for code in codes if code in registry), "")
        row = EvalRow(
            id=record.decision_id,
            prompt=prompt,
            label=side,
            category=code.casefold().removeprefix(_CONTENT_PREFIX)[:200],
            domain=record.action_type[:200],
            language=guess_language(fold_sentence(prompt), builtin_lexicon().common) or "en",
            source=SOURCE,
        )
        yield _Case(row, why, label, record)


def _extract_prompt(record: DecisionRecord) -> str | SkippedRow:
    """Return the prompt without secrets, or the reason why there is none."""
    name = record.decision_id
    try:
        personal = record.personal
    except InputError as error:
        return SkippedRow(name, "unreadable", error.problem)
    if personal is None:
        return SkippedRow(name, "erased", "the request was erased")
    action = redact_request(personal.request, DEFAULT_PROFILE).request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    clean = clean_text(intent) if isinstance(intent, str) else ""
    return clean or SkippedRow(name, "no prompt", "the action of the request has no `intent`")


def _drop_conflicts(cases: list[_Case], left_out: list[SkippedRow]) -> Iterator[_Case]:
    """Yield each prompt once, and skip prompts whose labels contradict each other."""
    sides: dict[str, set[str]] = {}
    for case in cases:
        sides.setdefault(normalize_text(case.row.prompt), set()).add(case.row.label)
    seen: set[str] = set()
    for case in cases:
        prompt = normalize_text(case.row.prompt)
        if len(sides[prompt]) > 1:
            left_out.append(SkippedRow(case.row.id, "conflict", "labels of this prompt contradict"))
        elif prompt in seen:
            why = "another decision has the same prompt"
            left_out.append(SkippedRow(case.row.id, "duplicate", why))
        else:
            seen.add(prompt)
            yield case


def _build_pairs(
    cases: Iterable[_Case], near: NearTextIndex, left_out: list[SkippedRow]
) -> Iterator[PreferencePair]:
    for case in cases:
        name, prompt = case.row.id, case.row.prompt
        if leak := near.find_near(prompt):
            left_out.append(SkippedRow(name, "leak", f"{leak}, which is tested on"))
            continue
        pair = _build_pair(case)
        if isinstance(pair, str):
            left_out.append(SkippedRow(name, "no answer", pair))
        else:
            yield pair


def _build_pair(case: _Case) -> PreferencePair | str:
    """Return the pair of a decision, or the reason why there is none."""
    row = case.row
    edit = parse_note(case.label.note)
    if edit is None:
        chosen = template_answer(row, case.why)
    else:
        chosen = verify_answer(row, case.why, TargetAnswer(row_id=row.id, text=edit), "edit")
    if chosen.text is None:
        return chosen.author
    rejected, author = _choose_rejected(case)
    if rejected is None:
        return author
    meta = PairMeta(
        row_id=row.id,
        why=case.why,
        chosen_by=chosen.author,
        rejected_by=author,
        run=SOURCE,
        category=row.category,
        language=row.language,
    )
    return PreferencePair(prompt=row.prompt, chosen=chosen.text, rejected=rejected, meta=meta)


def _choose_rejected(case: _Case) -> tuple[str | None, str]:
    """Return the answer to avoid: the refusal's own words, or a compliant template."""
    if case.why == "missed_harm":
        text = compliant_template(case.row.prompt, case.row.language)
        return text, "template" if text else f"no template is written in `{case.row.language}`"
    try:
        return clean_text(compose(case.record, locale=case.row.language).text), "demur"
    except InputError:
        return None, "nothing was refused"
