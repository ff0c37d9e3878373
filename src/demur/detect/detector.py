"""Tell refusals from answers, for models that refuse in plain prose.

A typed refusal line is taken at its word. For everything else `speech_acts` says what each
sentence does, `rules` finds the clear cases, and `model` turns both into a chance. If a learned
model of answers is installed, it is asked wherever the words leave a doubt.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import REFUSAL_MARK, FoundRefusal, find_refusals
from demur.codes.vocabulary import Surface
from demur.detect.model import builtin_model
from demur.detect.rules import (
    declines_in_part,
    is_doubtful,
    is_unable,
    refusal_chance,
    speaks_for_another,
)
from demur.detect.speech_acts import (
    DECLINE,
    AnswerAnalysis,
    act_bits,
    analyze_answer,
    builtin_lexicon,
)
from demur.errors import InputError, InputTypeError
from demur.learned import load_answer_model
from demur.model.refusal import Refusal, RefusalSource
from demur.text.prose import (
    ANSWER_HEAD,
    ANSWER_TAIL,
    AnswerSentence,
    guess_language,
    split_windows,
)

SIGNAL_SOURCE = "detect"


class RefusalKind(StrEnum):
    """How much an answer refuses. `UNABLE`, a lack of access, knowledge or means, is no refusal."""

    FULL = "full"
    PARTIAL = "partial"
    UNABLE = "unable"
    NONE = "none"


class DetectionBasis(StrEnum):
    """The basis of a detection."""

    TYPED = "typed"  # a refusal line with a registered code
    PROSE = "prose"  # the words, weighed
    LEARNED = "learned"  # the words, weighed together with a learned model
    EMPTY = "empty"  # there was nothing to read
    CODE = "code"  # nothing but code


class RefusalSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that refuses: `answer[start:end]`."""

    start: int
    end: int


class RefusalDetection(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement on one answer. `code` says why something was declined, `kind` how much.

    `confidence` is the chance that the kind is right; `truncated` says that only head and tail
    were read. `model` is the digest of the learned model that took part.
    """

    kind: RefusalKind
    confidence: float
    basis: DetectionBasis = DetectionBasis.PROSE
    spans: tuple[RefusalSpan, ...] = ()
    language: str | None = None
    code: str | None = None
    detail: str = ""
    truncated: bool = False
    model: str | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether anything was refused."""
        return self.kind in (RefusalKind.FULL, RefusalKind.PARTIAL)


def to_refusal(detection: RefusalDetection) -> Refusal | None:
    """Return the refusal that a detection stands for, or None if nothing was refused.

    For prose it copies no words of the answer: the spans say where they stand. For a typed line,
    `detail` is the text of that line.

    Raises:
        UnknownCodeError: The detection carries a code that the registry in force does not know.
    """
    if detection.code is None:
        return None
    line = detection.basis is DetectionBasis.TYPED
    return Refusal.from_code(
        detection.code,
        detection.detail,
        evidence={
            "kind": detection.kind,
            "basis": detection.basis,
            "language": detection.language,
            "truncated": detection.truncated,
            **({} if detection.model is None else {"model": detection.model}),
            "spans": [[span.start, span.end] for span in detection.spans],
        },
        surface=Surface.MODEL,
        source=RefusalSource(name=SIGNAL_SOURCE, confidence=None if line else detection.confidence),
    )


_CODE_BLOCK = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)


def find_typed_line(response: str) -> FoundRefusal | None:
    """Return the refusal line of a registered code that begins or ends the answer.

    A line between other lines is part of the requested text, such as a log.
    """
    for offset, window in split_windows(response):
        prose = _CODE_BLOCK.sub(lambda found: " " * len(found[0]), window)
        for line in find_refusals(prose):
            start = prose.rfind("\n", 0, line.start) + 1
            alone = not prose[start : line.start].strip()
            first = not response[: offset + line.start].strip()
            last = not response[offset + line.end :].strip()
            if not line.legacy and alone and (first or last):
                return line._replace(start=line.start + offset, end=line.end + offset)
    return None


_MAX_SPANS = 8
# Acts whose sentences a result points at, the plainest first.
_ACTS_BY_PLAINNESS = (DECLINE, act_bits("cannot"), act_bits("regret rebuke"), -1)


def detect_refusal(
    response: str, prompt: str | None = None, *, learned: bool = True
) -> RefusalDetection:
    """Return whether `response` refuses, in full or in part. No string raises.

    The prompt, where known, helps to read the answer: one that turns the words of the request
    into a judgement on it is a refusal. `learned=False` judges by words alone, even where the
    learned models are installed.

    Raises:
        LearnedModelError: An installed learned model is unusable.
    """
    if not isinstance(response, str):
        raise InputTypeError.wrong_type("a response", "a string", response)
    if prompt is not None and not isinstance(prompt, str):
        raise InputTypeError.wrong_type("a prompt", "a string", prompt)
    truncated = len(response) > ANSWER_HEAD + ANSWER_TAIL
    line = find_typed_line(response) if REFUSAL_MARK in response else None
    if line is not None:
        return RefusalDetection(
            kind=RefusalKind.FULL,
            confidence=1.0,
            basis=DetectionBasis.TYPED,
            spans=(RefusalSpan(start=line.start, end=line.end),),
            code=str(line.code),
            detail=line.detail,
            truncated=truncated,
        )
    analysis = analyze_answer(response)
    if not analysis.acts:
        empty = DetectionBasis.PROSE if response.strip() else DetectionBasis.EMPTY
        return RefusalDetection(
            kind=RefusalKind.NONE,
            confidence=1.0,
            basis=DetectionBasis.CODE if analysis.answer.code else empty,
            truncated=truncated,
        )
    chance = refusal_chance(analysis, prompt, builtin_model())
    scorer = load_answer_model() if learned and is_doubtful(analysis, prompt, chance) else None
    if scorer is None:
        return judge_analysis(analysis, chance, prompt)
    chance = builtin_model().combine(chance, scorer.score_answer(prompt, response))
    return judge_analysis(analysis, chance, prompt, scorer.digest)


def detect_many(
    responses: Iterable[str], prompts: Iterable[str | None] | None = None
) -> Iterator[RefusalDetection]:
    """Yield the detection of each response, in order; prompts, if given, belong to them in order.

    Raises:
        ValueError: There are not as many prompts as responses.
    """
    if prompts is None:
        yield from map(detect_refusal, responses)
    else:
        for response, prompt in zip(responses, prompts, strict=True):
            yield detect_refusal(response, prompt)


def judge_analysis(
    analysis: AnswerAnalysis, chance: float, prompt: str | None, digest: str | None = None
) -> RefusalDetection:
    """Return the judgement on an answer with at least one sentence, from its chance to refuse.

    `digest` is that of the learned model behind the chance, if one took part.
    """
    # INVARIANT: a judgement on words alone never carries a code of the class HARD_BLOCK.
    code: ReasonCode | None = ReasonCode.MODEL_DECLINED
    spans: tuple[RefusalSpan, ...] = ()
    model = builtin_model()
    if chance >= model.threshold(learned=digest is not None):
        kind, confidence = RefusalKind.FULL, chance
        spans = _find_spans(analysis.answer.sentences, analysis.acts)
    elif is_unable(analysis):
        kind, confidence, code = RefusalKind.UNABLE, 1 - chance, None
    elif declines_in_part(analysis) and not speaks_for_another(analysis, prompt):
        kind, confidence = RefusalKind.PARTIAL, (1 - chance) * model.partial_share
        both = (*analysis.answer.earlier_voices, *analysis.answer.sentences)
        spans = _find_spans(both, (*analysis.earlier_acts, *analysis.acts))
    else:
        kind, confidence, code = RefusalKind.NONE, 1 - chance, None
    words = " ".join(one.words for one in analysis.answer.sentences[:6])
    return RefusalDetection(
        kind=kind,
        confidence=round(confidence, 4),
        basis=DetectionBasis.PROSE if digest is None else DetectionBasis.LEARNED,
        spans=spans,
        language=guess_language(words, builtin_lexicon().common),
        code=None if code is None else str(code),
        truncated=analysis.answer.truncated,
        model=digest,
    )


def _find_spans(
    sentences: Sequence[AnswerSentence], acts: Sequence[int]
) -> tuple[RefusalSpan, ...]:
    """Return the sentences that refuse most plainly."""
    every = reduce(or_, acts)
    plainest = next(bits for bits in _ACTS_BY_PLAINNESS if every & bits or bits == -1)
    pairs = zip(sentences, acts, strict=True)
    found = [RefusalSpan(start=one.start, end=one.end) for one, bits in pairs if bits & plainest]
    first = RefusalSpan(start=sentences[0].start, end=sentences[0].end)
    return tuple(found[:_MAX_SPANS]) or (first,)


_COLUMNS = ("kind", "confidence", "code", "language", "basis", "truncated")


def detect_batch(
    batch: Any, response: str = "response", prompt: str | None = None
) -> dict[str, list[Any]]:
    """Return what was detected as columns, with one row for each row of `batch`.

    They are `kind`, `confidence`, `code`, `language`, `basis` and `truncated`. A response that is
    null stays null in each column. `prompt` names the column of prompts; a prompt that is not text
    is ignored.

    Raises:
        InputError: The batch has no such column, or a response is something else than text.
    """
    responses = _read_column(batch, response)
    prompts = _read_column(batch, prompt) if prompt is not None else [None] * len(responses)
    rows = [
        None if response_text is None else _detect_row(response_text, prompt_text, response)
        for response_text, prompt_text in zip(responses, prompts, strict=True)
    ]
    plain = [{} if row is None else msgspec.to_builtins(row) for row in rows]
    return {name: [row.get(name) for row in plain] for name in _COLUMNS}


def _read_column(batch: Any, name: str) -> list[Any]:
    try:
        return list(batch.column(name).to_pylist())
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise InputError(f"the batch has no column `{name}`") from error


def _detect_row(response: Any, prompt: Any, name: str) -> RefusalDetection:
    if not isinstance(response, str):
        raise InputError(f"the column `{name}` holds `{type(response).__name__}`, not text")
    return detect_refusal(response, prompt if isinstance(prompt, str) else None)
