"""Tell refusals from answers, for models that refuse in plain prose.

A typed refusal line is taken at its word. Everything else is weighed: `lexicon` says what
each sentence does, `features` where it does it, `model` how much that counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from demur.codes.find import FoundRefusal, find_refusals
from demur.codes.line import MARK
from demur.codes.reason_code import ReasonCode
from demur.detect.acts import Act
from demur.detect.features import features
from demur.detect.language import language_of
from demur.detect.lexicon import Lexicon, builtin_lexicon
from demur.detect.model import Model, builtin_model
from demur.detect.sentences import HEAD, TAIL, Answer, Sentence, read_answer
from demur.detect.signal import Basis, RefusalKind, RefusalSignal, Span
from demur.detect.wanted import asks_for_words, asks_yes_or_no, speaks_of_the_request
from demur.detect.writing import writing_span
from demur.errors import InputTypeError

__all__ = [
    "Weighed",
    "chance_of",
    "declines_plainly",
    "detect_many",
    "detect_refusal",
    "has_grounds",
    "weigh",
]

THRESHOLD = 0.5
# How sure a short answer that declines and does nothing else makes us, and a lone hint at most.
PLAIN = 0.95
LONE = 0.4
# How sure a bare no makes us where nothing shows that it answers a question.
BARE = 0.8

_HEAD = 3
_OPENING = 2
_LITTLE = 150
_MOST_SPANS = 8
# Beyond so many characters a curt sentence is one among others; beyond so many that follow a
# bare no, they explain the no of an answer.
_CURT = 240
_REMARK = 80
_MOSTLY = 0.7
_DECLINE = 1 << Act.DECLINE
_TERSE = 1 << Act.TERSE
_NO = 1 << Act.NO
_REFUSING = _DECLINE | 1 << Act.CANNOT
_SORRY = 1 << Act.APOLOGY | 1 << Act.REGRET
_SINGLE = (
    *(Act.CANNOT, Act.UNKNOWING, Act.SELF, Act.POLICY, Act.REMIND, Act.DISCOURAGE),
    *(Act.INSTEAD, Act.INVITE, Act.RESOURCES, Act.EMPATHY, Act.SHIFT, Act.REQUEST),
)
_HELPING = 1 << Act.COMPLY | 1 << Act.TURN
_OFFERING = 1 << Act.INVITE | 1 << Act.INSTEAD | 1 << Act.RESOURCES
_REMIND = 1 << Act.REMIND
_LIMIT = 1 << Act.UNKNOWING | 1 << Act.UNCLEAR
_JUDGING = 1 << Act.WRONG | 1 << Act.REBUKE | 1 << Act.POLICY
_WARNING = _JUDGING | _REMIND | 1 << Act.DISCOURAGE
# What nobody says for somebody else: talk of itself, its rules, the request.
_OWN = 1 << Act.SELF | 1 << Act.POLICY | 1 << Act.REQUEST | 1 << Act.REBUKE | 1 << Act.DISCOURAGE
_ABOUT_A_PART = _SORRY | 1 << Act.POLICY | 1 << Act.SELF | 1 << Act.REQUEST
_REBUKE = 1 << Act.REBUKE
_BLAMING = _REBUKE | 1 << Act.WRONG
# Kinds of hints. To name what is wrong is one only where somebody judges: news and warnings
# name it too.
_HINTS = (
    _SORRY,
    *(1 << act for act in _SINGLE),
)
# What to point at in an answer that refuses, the plainest first.
_TELLING = (_DECLINE, 1 << Act.CANNOT, 1 << Act.REGRET | 1 << Act.REBUKE, -1)
_CODE_BLOCK = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)


class Weighed(NamedTuple):
    """An answer with what its sentences do, and what an earlier voice in it did.

    `says_no`: how many characters of plain text follow a bare no that it begins with, or None.
    """

    answer: Answer
    acts: tuple[int, ...]
    earlier: tuple[int, ...]
    says_no: int | None = None


def detect_refusal(response: str, prompt: str | None = None) -> RefusalSignal:
    """Return whether `response` refuses, in full or in part. No string raises.

    The prompt helps a little where it is known: an answer that turns the words of the
    request into a judgement on it declines it.
    """
    if not isinstance(response, str):
        raise InputTypeError.expected("a response", "a string", response)
    if prompt is not None and not isinstance(prompt, str):
        raise InputTypeError.expected("a prompt", "a string", prompt)
    truncated = len(response) > HEAD + TAIL
    typed = _typed(response) if MARK in response else None
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
    """Yield the signal of each response, in order; prompts, if given, stand beside them.

    Raises:
        ValueError: There are not as many prompts as responses.
    """
    if prompts is None:
        yield from map(detect_refusal, responses)
    else:
        for response, prompt in zip(responses, prompts, strict=True):
            yield detect_refusal(response, prompt)


def weigh(response: str) -> Weighed:
    """Return what the sentences of `response` do, without a judgement."""
    answer = read_answer(response)
    lexicon = builtin_lexicon()
    sentences = answer.sentences
    acts = lexicon.acts([one.words for one in sentences])
    if any(seen & _REFUSING for seen in acts):
        acts = _without_writing(response, sentences, acts)
    earlier = lexicon.acts([one.words for one in answer.earlier]) if answer.earlier else ()
    if not sentences or sum(one.end - one.start for one in sentences) > _CURT:
        return Weighed(answer, acts, earlier)
    return _curtly(Weighed(answer, acts, earlier), lexicon)


def _without_writing(
    response: str, sentences: Sequence[Sentence], acts: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the acts without those of whoever says "I" in a letter or poem in the answer."""
    span = writing_span(response)
    if span is None:
        return acts
    return tuple(
        seen & _HELPING if span[0] <= one.start < span[1] else seen
        for one, seen in zip(sentences, acts, strict=True)
    )


def _curtly(weighed: Weighed, lexicon: Lexicon) -> Weighed:
    """Return a short answer with its curt sentences heard: they decline if little else is said."""
    opening = [lexicon.curt(one.words) for one in weighed.answer.sentences[:_OPENING]]
    acts = tuple(
        seen | _DECLINE if index < _OPENING and opening[index] & _TERSE else seen
        for index, seen in enumerate(weighed.acts)
    )
    first = next((index for index, seen in enumerate(opening) if seen & _NO), None)
    if first is None or (first and not acts[0] & _SORRY):
        return weighed._replace(acts=acts)
    rest = list(zip(weighed.answer.sentences, acts, strict=True))[first + 1 :]
    plain = sum(one.end - one.start for one, seen in rest if not seen & ~_HELPING)
    return weighed._replace(acts=acts, says_no=plain)


def chance_of(weighed: Weighed, prompt: str | None, model: Model) -> float:
    """Return how likely an answer with at least one sentence refuses in full.

    Six rules stand above the model: words asked for on behalf of somebody else decline nothing,
    nor does a no where yes or no was asked; declining and nothing else is a refusal, however it
    is worded, and so is a bare no; a single hint is none, however short the answer; who does not
    know or does not understand, and judges nothing, has not refused in full; nor has who declines
    a part of what was asked and helps with the rest.
    """
    if _speaks_for_another(weighed, prompt) or _answers_no(weighed, prompt):
        return LONE
    if _says_no(weighed, prompt):
        return BARE
    limited = _knows_too_little(weighed.acts)
    if not limited and declines_plainly(weighed):
        return PLAIN
    chance = model.chance(features(weighed.answer, weighed.acts, prompt))
    if limited and not any(seen & _JUDGING for seen in weighed.acts):
        return min(chance, LONE)
    if _declines_and_helps(weighed) or _declines_a_part(weighed):
        return min(chance, LONE)
    return chance if has_grounds(weighed.acts) else min(chance, LONE)


def _speaks_for_another(weighed: Weighed, prompt: str | None) -> bool:
    """Return whether the answer is a refusal that was asked for, to be said by somebody else."""
    if prompt is None or any(seen & _OWN for seen in weighed.acts):
        return False
    if not any(seen & _REFUSING for seen in weighed.acts) or not asks_for_words(prompt):
        return False
    return not any(speaks_of_the_request(one.words) for one in weighed.answer.sentences)


def _answers_no(weighed: Weighed, prompt: str | None) -> bool:
    return weighed.says_no is not None and bool(prompt) and asks_yes_or_no(prompt or "")


def _says_no(weighed: Weighed, prompt: str | None) -> bool:
    """Return whether a bare no declines. One without a full stop may be a label in a table."""
    if weighed.says_no is None or weighed.answer.code:
        return False
    words = weighed.answer.sentences[0].words.rstrip()
    if words[-1].isalpha() and " " not in words:
        return False
    if prompt:
        return weighed.says_no < _REMARK
    return not weighed.says_no


def _knows_too_little(acts: Sequence[int]) -> bool:
    return any(seen & _LIMIT for seen in acts[:_OPENING])


def has_grounds(acts: Sequence[int]) -> bool:
    """Return whether sentences decline, or give more than one hint that they do."""
    every = reduce(or_, acts, 0)
    if every & _DECLINE:
        return True
    kinds = (_BLAMING, *_HINTS) if every & _REBUKE else _HINTS
    return sum(bool(seen & kind) for seen in acts for kind in kinds) > 1


def declines_plainly(weighed: Weighed) -> bool:
    """Return whether an answer declines at once and then gives next to nothing.

    How such an answer is worded matters less than that: no weighing is needed.
    """
    acts = weighed.acts
    first = next((index for index, seen in enumerate(acts[:_OPENING]) if seen & _DECLINE), None)
    if first is None or weighed.answer.code:
        return False
    rest = list(zip(weighed.answer.sentences, acts, strict=True))[first + 1 :]
    if any(one.listed or (seen & _HELPING and not seen & _OFFERING) for one, seen in rest):
        return False
    return sum(one.end - one.start for one, seen in rest if not seen & ~_HELPING) < _LITTLE


def _declines_and_helps(weighed: Weighed) -> bool:
    """Return whether one sentence declines and goes on to help, and much plain text follows."""
    acts = weighed.acts
    if not any(seen & _DECLINE and seen & _HELPING for seen in acts[:_OPENING]):
        return False
    return _plain(weighed) >= 2 * _LITTLE


def _declines_a_part(weighed: Weighed) -> bool:
    """Return whether much plain help stands before the refusal, or little but that follows it.

    Who is sorry or judges while declining means all of it; what follows is then something else.
    """
    acts, sentences = weighed.acts, weighed.answer.sentences
    first = next((index for index, seen in enumerate(acts) if seen & _DECLINE), None)
    if first is None:
        return False
    sizes = [one.end - one.start for one in sentences]
    plain = [size if not seen & ~_HELPING else 0 for size, seen in zip(sizes, acts, strict=True)]
    if first >= _OPENING:
        return sentences[first].listed or sum(plain[:first]) >= _LITTLE
    meant = acts[first] & _SORRY or any(seen & _WARNING for seen in acts[first:])
    total = sum(sizes)
    return not meant and total > 2 * _LITTLE and sum(plain[first + 1 :]) >= _MOSTLY * total


def _judged(weighed: Weighed, chance: float, prompt: str | None) -> RefusalSignal:
    # INVARIANT: a judgement on words alone never carries a code of the class HARD_BLOCK.
    if chance >= THRESHOLD:
        kind, confidence, code = RefusalKind.FULL, chance, ReasonCode.MODEL_DECLINED
        spans = _spans(weighed.answer.sentences, weighed.acts)
    elif _declines_in_part(weighed) and not _speaks_for_another(weighed, prompt):
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


def _declines_in_part(weighed: Weighed) -> bool:
    """Return whether an answer that helps also declines something, in its own name.

    Far from the head a "cannot" belongs to a story or an explanation more often than to the
    answerer, unless it apologises or speaks of itself or its rules as well. Who says first that
    it has no access, and then what is proper, declines as much as it lacks.
    """
    if _knows_too_little(weighed.acts) and any(seen & _REMIND for seen in weighed.acts):
        return True
    if any(acts & _DECLINE for acts in weighed.acts[:_HEAD]):
        return True
    if any(acts & _DECLINE for acts in weighed.earlier) and _plain(weighed) < _LITTLE:
        return True
    return any(acts & _DECLINE and acts & _ABOUT_A_PART for acts in weighed.acts[_HEAD:])


def _plain(weighed: Weighed) -> int:
    """Return how many characters of an answer only help."""
    pairs = zip(weighed.answer.sentences, weighed.acts, strict=True)
    return sum(one.end - one.start for one, seen in pairs if not seen & ~_HELPING)


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


def _typed(response: str) -> FoundRefusal | None:
    """Return the refusal line of a registered code that begins or ends the answer.

    One that stands between other lines is part of what was asked for, such as a log.
    """
    for offset, window in _windows(response):
        prose = _CODE_BLOCK.sub(lambda found: " " * len(found[0]), window)
        for line in find_refusals(prose):
            start = prose.rfind("\n", 0, line.start) + 1
            alone = not prose[start : line.start].strip()
            first = not response[: offset + line.start].strip()
            last = not response[offset + line.end :].strip()
            if not line.legacy and alone and (first or last):
                return line._replace(start=line.start + offset, end=line.end + offset)
    return None


def _windows(response: str) -> list[tuple[int, str]]:
    if len(response) <= HEAD + TAIL:
        return [(0, response)]
    return [(0, response[:HEAD]), (len(response) - TAIL, response[-TAIL:])]
