"""What the sentences of an answer do, before anyone judges it.

A letter or poem in the answer has a speaker of its own, and a curt sentence is heard only where
little else is said.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.detect.acts import Act
from demur.detect.lexicon import Lexicon, builtin_lexicon
from demur.detect.sentences import Answer, Sentence, read_answer
from demur.detect.writing import writing_span

__all__ = ["DECLINE", "HELPING", "OPENING", "REFUSING", "SORRY", "Weighed", "helping", "weigh"]

# How many sentences count as the opening.
OPENING = 2
DECLINE = 1 << Act.DECLINE
REFUSING = DECLINE | 1 << Act.CANNOT
SORRY = 1 << Act.APOLOGY | 1 << Act.REGRET
HELPING = 1 << Act.COMPLY | 1 << Act.TURN

# In a longer answer a curt sentence says little.
_CURT = 240
_TERSE = 1 << Act.TERSE
_NO = 1 << Act.NO


class Weighed(NamedTuple):
    """An answer with the acts of its sentences, and those of earlier voices.

    `says_no`: how many helping characters follow the bare no it begins with; None without one.
    """

    answer: Answer
    acts: tuple[int, ...]
    earlier: tuple[int, ...]
    says_no: int | None = None


def weigh(response: str) -> Weighed:
    """Return the speech acts of the sentences of `response`."""
    answer = read_answer(response)
    lexicon = builtin_lexicon()
    sentences = answer.sentences
    acts = lexicon.acts([one.words for one in sentences])
    if any(seen & REFUSING for seen in acts):
        acts = _without_writing(response, sentences, acts)
    earlier = lexicon.acts([one.words for one in answer.earlier]) if answer.earlier else ()
    if not sentences or sum(one.end - one.start for one in sentences) > _CURT:
        return Weighed(answer, acts, earlier)
    return _curtly(Weighed(answer, acts, earlier), lexicon)


def _without_writing(
    response: str, sentences: Sequence[Sentence], acts: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the acts without refusals in a letter or poem in the answer."""
    span = writing_span(response)
    if span is None:
        return acts
    return tuple(
        seen & HELPING if span[0] <= one.start < span[1] else seen
        for one, seen in zip(sentences, acts, strict=True)
    )


def _curtly(weighed: Weighed, lexicon: Lexicon) -> Weighed:
    """Return a short answer with its curt sentences counted as refusals."""
    opening = [lexicon.curt(one.words) for one in weighed.answer.sentences[:OPENING]]
    acts = tuple(
        seen | DECLINE if index < OPENING and opening[index] & _TERSE else seen
        for index, seen in enumerate(weighed.acts)
    )
    first = next((index for index, seen in enumerate(opening) if seen & _NO), None)
    if first is None or (first and not acts[0] & SORRY):
        return weighed._replace(acts=acts)
    rest = list(zip(weighed.answer.sentences, acts, strict=True))[first + 1 :]
    return weighed._replace(acts=acts, says_no=helping(rest))


def helping(said: Iterable[tuple[Sentence, int]]) -> int:
    """Return how many characters of sentences, each with its acts, do nothing but help."""
    return sum(one.end - one.start for one, seen in said if not seen & ~HELPING)
