"""Tell refusals from answers, for models that refuse in plain prose.

A typed refusal line is taken at its word. Everything else is weighed: `lexicon` says what
each sentence does, `features` where it does it, `model` how much that counts, and `rules` what
needs no weighing.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

from demur.codes.line import MARK
from demur.codes.reason_code import ReasonCode
from demur.detect.acts import Act
from demur.detect.language import language_of
from demur.detect.lexicon import builtin_lexicon
from demur.detect.model import builtin_model
from demur.detect.rules import THRESHOLD, chance_of, declines_in_part, speaks_for_another
from demur.detect.sentences import HEAD, TAIL, Answer, Sentence
from demur.detect.signal import Basis, RefusalKind, RefusalSignal, Span
from demur.detect.typed_line import typed_line
from demur.detect.weighing import DECLINE, Weighed, weigh
from demur.errors import InputTypeError

__all__ = ["detect_many", "detect_refusal"]

_MOST_SPANS = 8
# Acts whose sentences a signal points at, the plainest first.
_TELLING = (DECLINE, 1 << Act.CANNOT, 1 << Act.REGRET | 1 << Act.REBUKE, -1)


def detect_refusal(response: str, prompt: str | None = None) -> RefusalSignal:
    """Return whether `response` refuses, in full or in part. No string raises.

    The prompt, where known, helps to read the answer: one that turns the words of the request
    into a judgement on it is a refusal.
    """
    if not isinstance(response, str):
        raise InputTypeError.expected("a response", "a string", response)
    if prompt is not None and not isinstance(prompt, str):
        raise InputTypeError.expected("a prompt", "a string", prompt)
    truncated = len(response) > HEAD + TAIL
    typed = typed_line(response) if MARK in response else None
    if typed is not None:
        return RefusalSignal(
            kind=RefusalKind.FULL,
            confidence=1.0,
            basis=Basis.TYPED,
            spans=(Span(start=typed.start, end=typed.end),),
            code=str(typed.code),
            detail=typed.detail,
            truncated=truncated,
        )
    weighed = weigh(response)
    if not weighed.acts:
        return RefusalSignal(
            kind=RefusalKind.NONE,
            confidence=1.0,
            basis=_nothing(response, weighed.answer),
            truncated=truncated,
        )
    return _judged(weighed, chance_of(weighed, prompt, builtin_model()), prompt)


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


def _judged(weighed: Weighed, chance: float, prompt: str | None) -> RefusalSignal:
    # INVARIANT: a judgement on words alone never carries a code of the class HARD_BLOCK.
    if chance >= THRESHOLD:
        kind, confidence, code = RefusalKind.FULL, chance, ReasonCode.MODEL_DECLINED
        spans = _spans(weighed.answer.sentences, weighed.acts)
    elif declines_in_part(weighed) and not speaks_for_another(weighed, prompt):
        kind, confidence, code = RefusalKind.PARTIAL, 1 - chance, ReasonCode.MODEL_DECLINED
        both = (*weighed.answer.earlier, *weighed.answer.sentences)
        spans = _spans(both, (*weighed.earlier, *weighed.acts))
    else:
        kind, confidence, code, spans = RefusalKind.NONE, 1 - chance, None, ()
    words = " ".join(one.words for one in weighed.answer.sentences[:6])
    return RefusalSignal(
        kind=kind,
        confidence=round(confidence, 4),
        spans=spans,
        language=language_of(words, builtin_lexicon().common),
        code=None if code is None else str(code),
        truncated=weighed.answer.truncated,
    )


def _spans(sentences: Sequence[Sentence], acts: Sequence[int]) -> tuple[Span, ...]:
    """Return the sentences that refuse most plainly."""
    every = reduce(or_, acts)
    telling = next(bits for bits in _TELLING if every & bits or bits == -1)
    pairs = zip(sentences, acts, strict=True)
    found = [Span(start=one.start, end=one.end) for one, seen in pairs if seen & telling]
    first = Span(start=sentences[0].start, end=sentences[0].end)
    return tuple(found[:_MOST_SPANS]) or (first,)


def _nothing(response: str, answer: Answer) -> Basis:
    if answer.code:
        return Basis.CODE
    return Basis.PROSE if response and not response.isspace() else Basis.EMPTY
