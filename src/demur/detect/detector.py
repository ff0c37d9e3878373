"""Tell refusals from answers, for models that refuse in plain prose.

A typed refusal line is taken at its word. Everything else is weighed: `lexicon` says what
each sentence does, `features` where it does it, `model` how much that counts, and `rules` what
needs no weighing.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

from demur.codes.line import REFUSAL_MARK
from demur.codes.reason_code import ReasonCode
from demur.detect.acts import SpeechAct
from demur.detect.language import guess_language
from demur.detect.lexicon import builtin_lexicon
from demur.detect.model import builtin_model
from demur.detect.rules import (
    REFUSAL_THRESHOLD,
    refusal_chance,
    declines_in_part,
    speaks_for_another,
)
from demur.detect.sentences import ANSWER_HEAD, ANSWER_TAIL, ParsedAnswer, AnswerSentence
from demur.detect.signal import DetectionBasis, RefusalKind, RefusalSignal, RefusalSpan
from demur.detect.typed_line import find_typed_line
from demur.detect.weighing import DECLINE, AnswerAnalysis, analyze_answer
from demur.errors import InputTypeError

__all__ = ["detect_many", "detect_refusal"]

_MAX_SPANS = 8
# Acts whose sentences a signal points at, the plainest first.
_TELLING = (DECLINE, 1 << SpeechAct.CANNOT, 1 << SpeechAct.REGRET | 1 << SpeechAct.REBUKE, -1)


def detect_refusal(response: str, prompt: str | None = None) -> RefusalSignal:
    """Return whether `response` refuses, in full or in part. No string raises.

    The prompt, where known, helps to read the answer: one that turns the words of the request
    into a judgement on it is a refusal.
    """
    if not isinstance(response, str):
        raise InputTypeError.wrong_type("a response", "a string", response)
    if prompt is not None and not isinstance(prompt, str):
        raise InputTypeError.wrong_type("a prompt", "a string", prompt)
    truncated = len(response) > ANSWER_HEAD + ANSWER_TAIL
    typed = find_typed_line(response) if REFUSAL_MARK in response else None
    if typed is not None:
        return RefusalSignal(
            kind=RefusalKind.FULL,
            confidence=1.0,
            basis=DetectionBasis.TYPED,
            spans=(RefusalSpan(start=typed.start, end=typed.end),),
            code=str(typed.code),
            detail=typed.detail,
            truncated=truncated,
        )
    weighed = analyze_answer(response)
    if not weighed.acts:
        return RefusalSignal(
            kind=RefusalKind.NONE,
            confidence=1.0,
            basis=_empty_basis(response, weighed.answer),
            truncated=truncated,
        )
    return _judge_answer(weighed, refusal_chance(weighed, prompt, builtin_model()), prompt)


def detect_many(
    responses: Iterable[str], prompts: Iterable[str | None] | None = None
) -> Iterator[RefusalSignal]:
    """Yield the signal of each response, in order; prompts, if given, belong to them in order.

    Raises:
        ValueError: There are not as many prompts as responses.
    """
    if prompts is None:
        yield from map(detect_refusal, responses)
    else:
        for response, prompt in zip(responses, prompts, strict=True):
            yield detect_refusal(response, prompt)


def _judge_answer(analysis: AnswerAnalysis, chance: float, prompt: str | None) -> RefusalSignal:
    # INVARIANT: a judgement on words alone never carries a code of the class HARD_BLOCK.
    if chance >= REFUSAL_THRESHOLD:
        kind, confidence, code = RefusalKind.FULL, chance, ReasonCode.MODEL_DECLINED
        spans = _refusing_spans(analysis.answer.sentences, analysis.acts)
    elif declines_in_part(analysis) and not speaks_for_another(analysis, prompt):
        kind, confidence, code = RefusalKind.PARTIAL, 1 - chance, ReasonCode.MODEL_DECLINED
        both = (*analysis.answer.earlier_voices, *analysis.answer.sentences)
        spans = _refusing_spans(both, (*analysis.earlier_acts, *analysis.acts))
    else:
        kind, confidence, code, spans = RefusalKind.NONE, 1 - chance, None, ()
    words = " ".join(one.words for one in analysis.answer.sentences[:6])
    return RefusalSignal(
        kind=kind,
        confidence=round(confidence, 4),
        spans=spans,
        language=guess_language(words, builtin_lexicon().common),
        code=None if code is None else str(code),
        truncated=analysis.answer.truncated,
    )


def _refusing_spans(
    sentences: Sequence[AnswerSentence], acts: Sequence[int]
) -> tuple[RefusalSpan, ...]:
    """Return the sentences that refuse most plainly."""
    every = reduce(or_, acts)
    telling = next(bits for bits in _TELLING if every & bits or bits == -1)
    pairs = zip(sentences, acts, strict=True)
    found = [RefusalSpan(start=one.start, end=one.end) for one, seen in pairs if seen & telling]
    first = RefusalSpan(start=sentences[0].start, end=sentences[0].end)
    return tuple(found[:_MAX_SPANS]) or (first,)


def _empty_basis(response: str, answer: ParsedAnswer) -> DetectionBasis:
    if answer.code:
        return DetectionBasis.CODE
    return DetectionBasis.PROSE if response and not response.isspace() else DetectionBasis.EMPTY
