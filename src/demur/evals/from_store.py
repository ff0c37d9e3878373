"""Rows and pairs from production: decisions that people labelled as wrong.

A `false_refusal` becomes a legitimate row, a `missed_harm` a harmful one, under the decision's
id. The prompt is the intent of the request, or an excerpt of what was said. Text that looks like a
secret or personal data is removed; erased decisions are counted and stay erased.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from demur.codes.loading import default_registry
from demur.codes.vocabulary import Surface, Verdict
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
    PreferredAnswer,
    compliant_template,
    parse_note,
    template_answer,
    verify_answer,
)
from demur.evals.suite_row import EvalRow
from demur.evals.suite_row import RowLabel as Side
from demur.evals.target import TargetAnswer
from demur.gate.redaction import DEFAULT_PROFILE, REMOVED, redact_request
from demur.model.record import DecisionRecord, Excerpt, Personal
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
# What a decision says about a request if a person found it right.
_SIDE_OF_VERDICT: dict[str, Side] = {
    Verdict.ALLOW: "legitimate",
    Verdict.DENY: "harmful",
    Verdict.ESCALATE: "harmful",
}
_CODE_PATTERN = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_CONTENT_PREFIX = "content_"
# The kind of a decision left out because its record holds nothing of the text that was checked.
NOT_RECORDED = "not recorded"
# The surfaces whose texts excerpts hold.
_TEXT_SURFACES = frozenset(
    {Surface.INPUT, Surface.OUTPUT, Surface.MODEL, Surface.TOOL_RESULT, Surface.RETRIEVAL}
)
EXCERPTS_HINT = 'set `excerpts = "findings"` in demur.toml to record what is said from now on'


class StoreSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to test on, pairs to train on, the number of labels, and the skipped rows."""

    labels: int
    rows: tuple[EvalRow, ...]
    pairs: tuple[PreferencePair, ...] = ()
    left_out: tuple[SkippedRow, ...] = ()


class _Case(NamedTuple):
    """A labelled decision as a row, with the material for its pair if it was wrong."""

    row: EvalRow
    excerpt: Excerpt | None
    why: PairReason | None
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
    built = list(_build_cases(store, labels, tenant, left_out, _TextChoice()))
    cases = list(_drop_conflicts(built, left_out))
    if not pairs:
        rows = tuple(case.row for case in cases)
        return StoreSamples(labels=len(labels), rows=rows, left_out=tuple(left_out))
    rows = tuple(case.row for case in cases if half_of(case.row, test_share) == "test")
    others = [case for case in cases if half_of(case.row, test_share) == "train"]
    near = NearTextIndex((row.id, row.prompt) for row in (*rows, *test_rows))
    made = tuple(drop_duplicates(_build_pairs(others, near, left_out), left_out))
    return StoreSamples(labels=len(labels), rows=rows, pairs=made, left_out=tuple(left_out))


def collect_reviewed(
    store: Store,
    *,
    tenant: str | None = None,
    since: str = "",
    texts: Mapping[str, str] | None = None,
    surface: Surface = Surface.INPUT,
) -> StoreSamples:
    """Return a row for each decision that people reviewed, those that were right included.

    A refusal that was right is a harmful row, and a request allowed rightly a legitimate one.
    `texts` are those of decisions, by id, whose requests record none. The text of a row is what was
    said on the `surface`; on `input` that is also the intent of a request.
    """
    left_out: list[SkippedRow] = []
    labels = _latest_reviews(store, tenant, since, right=True)
    built = _build_cases(store, labels, tenant, left_out, _TextChoice(surface, texts or {}))
    cases = _drop_conflicts(list(built), left_out)
    rows = tuple(case.row for case in cases)
    return StoreSamples(labels=len(labels), rows=rows, left_out=tuple(left_out))


def _latest_reviews(
    store: Store, tenant: str | None, since: str, *, right: bool = False
) -> list[Label]:
    """Return the latest review of each decision; those of `right` decisions only if asked for."""
    latest = store.find_reviews(tenant=tenant, since=since).values()
    return [label for label in latest if right or label.value != _GOOD_LABEL]


class _TextChoice(NamedTuple):
    """The texts that become rows: those of one surface, or with None all prompts."""

    surface: Surface | None = None
    given: Mapping[str, str] = {}


def _build_cases(
    store: Store,
    labels: Iterable[Label],
    tenant: str | None,
    left_out: list[SkippedRow],
    choice: _TextChoice,
) -> Iterator[_Case]:
    for label in labels:
        record = store.get(label.decision_id, tenant)
        if record is None:
            why_not = "the decision is not in the store"
            left_out.append(SkippedRow(label.decision_id, "gone", why_not))
            continue
        case = _build_case(record, label, choice)
        if isinstance(case, SkippedRow):
            left_out.append(case)
        else:
            yield case


def _build_case(record: DecisionRecord, label: Label, choice: _TextChoice) -> _Case | SkippedRow:
    name = record.decision_id
    try:
        personal = record.personal
    except InputError as error:
        return SkippedRow(name, "unreadable", error.problem)
    if personal is None:
        return SkippedRow(name, "erased", "the request was erased")
    prompt = _find_text(name, personal, choice)
    if isinstance(prompt, SkippedRow):
        return prompt
    why, side = _SIDE_OF_REVIEW.get(label.value) or (None, _SIDE_OF_VERDICT.get(record.verdict))
    if side is None:
        return SkippedRow(name, "unjudged", "demur could not judge it")
    # The first registered code in the reviewer's note or the decision is the category.
    registry = default_registry()
    codes = (*_CODE_PATTERN.findall(label.note), *record.reason_codes)
    code = next((code for code in codes if code in registry), "")
    row = EvalRow(
        id=name,
        prompt=prompt,
        label=side,
        category=code.casefold().removeprefix(_CONTENT_PREFIX)[:200],
        domain=record.action_type[:200],
        language=guess_language(fold_sentence(prompt), builtin_lexicon().common) or "en",
        source=SOURCE,
    )
    return _Case(row, personal.excerpt, why, label, record)


def _find_text(name: str, personal: Personal, choice: _TextChoice) -> str | SkippedRow:
    """Return the text of a row without secrets, or the reason why there is none."""
    surface, excerpt = choice.surface, personal.excerpt
    action = redact_request(personal.request, DEFAULT_PROFILE).request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    text = ""
    if surface in {None, Surface.INPUT}:
        text = intent if isinstance(intent, str) else choice.given.get(name, "")
    if clean := clean_text(text):
        return clean
    if excerpt is None:
        if lacks_excerpt(personal):
            return SkippedRow(name, NOT_RECORDED, "what was said was not recorded")
        return SkippedRow(name, "no prompt", "the action of the request has no `intent`")
    if surface is not None and excerpt.surface != surface:
        return SkippedRow(name, "other surface", f"it was said on the surface `{excerpt.surface}`")
    is_row = surface is not None or excerpt.speaker == "user"
    clean = clean_text(excerpt.text if is_row else excerpt.prompt)
    why_not = f"a {excerpt.speaker} said it, and no prompt is known"
    return clean or SkippedRow(name, "no request", why_not)


def lacks_excerpt(personal: Personal) -> bool:
    """Return whether a guard checked a text that was not recorded."""
    extensions = personal.request.get("extensions")
    stage = extensions.get("stage") if isinstance(extensions, dict) else None
    return personal.excerpt is None and stage in _TEXT_SURFACES


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
    row, why = case.row, case.why
    assert why is not None, "pairs are made of wrong decisions"
    chosen, rejected = _choose_preferred(case, why), _choose_rejected(case)
    if chosen.text is None:
        return chosen.author
    if rejected.text is None:
        return rejected.author
    meta = PairMeta(
        row_id=row.id,
        why=why,
        chosen_by=chosen.author,
        rejected_by=rejected.author,
        run=SOURCE,
        category=row.category,
        language=row.language,
    )
    return PreferencePair(prompt=row.prompt, chosen=chosen.text, rejected=rejected.text, meta=meta)


def _choose_preferred(case: _Case, why: PairReason) -> PreferredAnswer:
    """Return the answer in the note, else the answer that was refused wrongly, else a template."""
    edit = parse_note(case.label.note)
    if edit is not None:
        return verify_answer(case.row, why, TargetAnswer(row_id=case.row.id, text=edit), "edit")
    recorded = _recorded_answer(case, Surface.OUTPUT)
    if why == "false_refusal" and recorded:
        answer = TargetAnswer(row_id=case.row.id, text=recorded)
        verified = verify_answer(case.row, why, answer, _RECORDED)
        if verified.text is not None:
            return verified
    return template_answer(case.row, why)


def _choose_rejected(case: _Case) -> PreferredAnswer:
    """Return the answer to avoid: what a model said, the refusal's own words, or a template."""
    if case.why == "missed_harm":
        if recorded := _recorded_answer(case, Surface.OUTPUT):
            return PreferredAnswer(recorded, _RECORDED)
        text = compliant_template(case.row.prompt, case.row.language)
        return PreferredAnswer(
            text, "template" if text else f"no template is written in `{case.row.language}`"
        )
    if recorded := _recorded_answer(case, Surface.MODEL):
        return PreferredAnswer(recorded, _RECORDED)
    try:
        return PreferredAnswer(
            clean_text(compose(case.record, locale=case.row.language).text), "demur"
        )
    except InputError:
        return PreferredAnswer(None, "nothing was refused")


_RECORDED = "recorded"
_AUTHORS = {
    _RECORDED: "the recorded answer",
    "demur": "the refusal",
    "edit": "your answer",
    "refusal": "a refusal",
    "template": "a template",
}


def _recorded_answer(case: _Case, surface: Surface) -> str:
    """Return a model's answer that was recorded whole, without secrets."""
    excerpt = case.excerpt
    if excerpt is None or excerpt.surface != surface or excerpt.is_cut:
        return ""
    clean = clean_text(excerpt.text)
    return "" if REMOVED in clean else clean


class LabelUse(NamedTuple):
    """What the commands make of one label, in words."""

    row: str
    pair: str
    guard: str

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The commands and what they make of the label; those that make the same together."""
        commands = ("eval from-store", "eval from-store --pairs", "guard train --from-store")
        by_words: dict[str, list[str]] = {}
        for command, words in zip(commands, self, strict=True):
            by_words.setdefault(words, []).append(command)
        return [(", ".join(names), words) for words, names in by_words.items()]


def describe_use(record: DecisionRecord, label: Label) -> LabelUse:
    """Return what becomes of a label: a row to test on, a pair to train on, a row of a guard.

    Other labels may still leave it out: those of the same text that repeat or contradict it.
    """
    case = _build_case(record, label, _TextChoice())
    row = pair = "nothing: only what was wrong is taken"
    if label.value in _SIDE_OF_REVIEW:
        row = pair = _describe_skipped(case) if isinstance(case, SkippedRow) else ""
    if isinstance(case, _Case) and case.why is not None:
        row, pair = f"a {case.row.label} row", _describe_pair(case)
    surface = _said_surface(record)
    held = _build_case(record, label, _TextChoice(surface))
    if isinstance(held, SkippedRow):
        return LabelUse(row, pair, _describe_skipped(held))
    which = "hold" if held.row.label == "harmful" else "allow"
    option = "" if surface is Surface.INPUT else f", with `--surface {surface}`"
    return LabelUse(row, pair, f"a row to {which}{option}")


def _said_surface(record: DecisionRecord) -> Surface:
    try:
        personal = record.personal
    except InputError:
        return Surface.INPUT
    excerpt = None if personal is None else personal.excerpt
    return Surface.INPUT if excerpt is None else excerpt.surface


def _describe_skipped(skipped: SkippedRow) -> str:
    hint = f"; {EXCERPTS_HINT}" if skipped.kind == NOT_RECORDED else ""
    return f"nothing: {skipped.reason}{hint}"


def _describe_pair(case: _Case) -> str:
    if half_of(case.row) == "test":
        return "nothing: it is in the half to test on"
    pair = _build_pair(case)
    if isinstance(pair, str):
        return f"nothing: {pair}"
    assert pair.meta is not None
    chosen, rejected = (_AUTHORS.get(by, by) for by in (pair.meta.chosen_by, pair.meta.rejected_by))
    return f"a pair that prefers {chosen} to {rejected}"
