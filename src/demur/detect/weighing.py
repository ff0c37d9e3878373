"""What the sentences of an answer do, before anyone judges it.

A letter or poem in the answer has a speaker of its own, and a curt sentence is heard only where
little else is said.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.detect.acts import SpeechAct
from demur.detect.lexicon import Lexicon, builtin_lexicon
from demur.detect.sentences import ParsedAnswer, AnswerSentence, read_answer
from demur.detect.writing import find_quoted_prose

__all__ = [
    "DECLINE",
    "HELPING",
    "OPENING_SENTENCES",
    "REFUSING",
    "SORRY",
    "AnswerAnalysis",
    "count_helping",
    "analyze_answer",
]

# How many sentences count as the opening.
OPENING_SENTENCES = 2
DECLINE = 1 << SpeechAct.DECLINE
REFUSING = DECLINE | 1 << SpeechAct.CANNOT
SORRY = 1 << SpeechAct.APOLOGY | 1 << SpeechAct.REGRET
HELPING = 1 << SpeechAct.COMPLY | 1 << SpeechAct.TURN

# In a longer answer a curt sentence says little.
_MAX_CURT_LENGTH = 240
_TERSE = 1 << SpeechAct.TERSE
_NO = 1 << SpeechAct.NO


class AnswerAnalysis(NamedTuple):
    """An answer with the acts of its sentences, and those of earlier voices.

    `says_no`: how many helping characters follow the bare no it begins with; None without one.
    """

    answer: ParsedAnswer
    acts: tuple[int, ...]
    earlier_acts: tuple[int, ...]
    says_no: int | None = None


def analyze_answer(response: str) -> AnswerAnalysis:
    """Return the speech acts of the sentences of `response`."""
    answer = read_answer(response)
    lexicon = builtin_lexicon()
    sentences = answer.sentences
    acts = lexicon.classify_sentences([one.words for one in sentences])
    if any(seen & REFUSING for seen in acts):
        acts = _drop_quoted_acts(response, sentences, acts)
    earlier = (
        lexicon.classify_sentences([one.words for one in answer.earlier_voices])
        if answer.earlier_voices
        else ()
    )
    if not sentences or sum(one.end - one.start for one in sentences) > _MAX_CURT_LENGTH:
        return AnswerAnalysis(answer, acts, earlier)
    return _add_curt_acts(AnswerAnalysis(answer, acts, earlier), lexicon)


def _drop_quoted_acts(
    response: str, sentences: Sequence[AnswerSentence], acts: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the acts without refusals in a letter or poem in the answer."""
    span = find_quoted_prose(response)
    if span is None:
        return acts
    return tuple(
        seen & HELPING if span[0] <= one.start < span[1] else seen
        for one, seen in zip(sentences, acts, strict=True)
    )


def _add_curt_acts(analysis: AnswerAnalysis, lexicon: Lexicon) -> AnswerAnalysis:
    """Return a short answer with its curt sentences counted as refusals."""
    opening = [
        lexicon.classify_curt(one.words) for one in analysis.answer.sentences[:OPENING_SENTENCES]
    ]
    acts = tuple(
        seen | DECLINE if index < OPENING_SENTENCES and opening[index] & _TERSE else seen
        for index, seen in enumerate(analysis.acts)
    )
    first = next((index for index, seen in enumerate(opening) if seen & _NO), None)
    if first is None or (first and not acts[0] & SORRY):
        return analysis._replace(acts=acts)
    rest = list(zip(analysis.answer.sentences, acts, strict=True))[first + 1 :]
    return analysis._replace(acts=acts, says_no=count_helping(rest))


def count_helping(sentences: Iterable[tuple[AnswerSentence, int]]) -> int:
    """Return how many characters of sentences, each with its acts, do nothing but help."""
    return sum(one.end - one.start for one, seen in sentences if not seen & ~HELPING)
