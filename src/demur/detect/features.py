"""The numbers that the model weighs: which acts stand where, and how the answer is built.

No word and no topic is a feature, only what sentences do: a model trained on answers about
some things in some languages then serves for other things and other languages.
"""

import math
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from demur.detect.acts import CURT, Act
from demur.detect.asked import NAMES as ASKED
from demur.detect.asked import asked_features, read_prompt
from demur.detect.fold import fold
from demur.detect.sentences import Answer, Sentence

__all__ = ["NAMES", "features"]

_HEAD = 3
_TAIL = 2
_LIST = 3
_PROMPT = 2000
_ACTS = tuple(act for act in Act if act is not Act.TRAP and act not in CURT)
_WORD = re.compile(r"[^\W\d_]{4,}")


def _bits(*acts: Act) -> int:
    return reduce(or_, (1 << act for act in acts))


_DECLINE = _bits(Act.DECLINE)
_REFUSING = _bits(Act.DECLINE, Act.CANNOT)
_COMPLY = _bits(Act.COMPLY)
_HELPFUL = _bits(Act.COMPLY, Act.TURN)
_WRONG = _bits(Act.WRONG)
_REBUKE = _bits(Act.REBUKE)
_RESOURCES = _bits(Act.RESOURCES)
_APOLOGY = _bits(Act.APOLOGY)
_EMPATHY = _bits(Act.EMPATHY)
_UNKNOWING = _bits(Act.UNKNOWING)
_UNCLEAR = _bits(Act.UNCLEAR)
_MORAL = _bits(
    Act.WRONG, Act.REBUKE, Act.REMIND, Act.DISCOURAGE, Act.POLICY, Act.RESOURCES, Act.INSTEAD
)

_FORM = (
    "length",
    "sentences",
    "short",
    "single",
    "items",
    "item_share",
    "code",
    "quotes",
    "voices",
    "asks_at_end",
    "exclaims",
)
_COURSE = (
    "neutral",
    "neutral_head",
    "moral",
    "moral_first",
    "first_decline",
    "second_declines",
    "plain_after",
    "plain_share_after",
    "helps_after",
    "long_after",
    "bare_decline",
)
_PAIRS = (
    "decline+list",
    "wrong_head+list",
    "wrong-decline",
    "comply_first-refusing",
    "rebuke_first-comply",
    "rebuke_head-list",
    "resources-comply",
    "nothing_moral",
    "apology_first-empathy",
)
_LIMITS = ("unclear", "unknowing+refusing")
_ECHO = ("echo", "echo+rebuke")
NAMES = (
    *(f"{where}:{act.name.lower()}" for where in ("first", "head", "any", "tail") for act in _ACTS),
    *(f"share:{act.name.lower()}" for act in _ACTS),
    *_FORM,
    *_COURSE,
    *_PAIRS,
    *_LIMITS,
    *_ECHO,
    *ASKED,
)


class _Seen(NamedTuple):
    """An answer and its acts, with sums that several features need."""

    answer: Answer
    acts: Sequence[int]
    sizes: Sequence[int]
    total: int
    items: int
    first: int
    head: int
    every: int


def features(answer: Answer, acts: Sequence[int], prompt: str | None) -> list[float]:
    """Return the features of an answer with at least one sentence, in the order of `NAMES`."""
    sizes = [one.end - one.start for one in answer.sentences]
    seen = _Seen(
        answer=answer,
        acts=acts,
        sizes=sizes,
        total=sum(sizes),
        items=sum(one.listed for one in answer.sentences),
        first=acts[0],
        head=_union(acts[:_HEAD]),
        every=_union(acts),
    )
    places = (seen.first, seen.head, seen.every, _union(acts[-_TAIL:]))
    row = [float(place >> act & 1) for place in places for act in _ACTS]
    row += _shares(seen)
    row += _form(seen)
    row += _course(seen)
    row += _pairs(seen)
    row += _limits(seen)
    row += _echoes(seen, prompt)
    row += asked_features(answer, acts, read_prompt(prompt))
    return row


def _union(acts: Iterable[int]) -> int:
    return reduce(or_, acts, 0)


def _shares(seen: _Seen) -> list[float]:
    """Return for each act the share of the answer that performs it."""
    sums = [0] * len(Act)
    for size, acts in zip(seen.sizes, seen.acts, strict=True):
        left = acts
        while left:
            low = left & -left
            sums[low.bit_length() - 1] += size
            left ^= low
    return [sums[act] / seen.total for act in _ACTS]


def _form(seen: _Seen) -> list[float]:
    sentences = seen.answer.sentences
    count = len(sentences)
    return [
        min(math.log1p(seen.total) / 8, 1.2),
        min(math.log1p(count) / 4, 1.2),
        float(seen.total < 160),
        float(count == 1),
        min(seen.items, 10) / 10,
        seen.items / count,
        float(seen.answer.code),
        min(seen.answer.quotes, 5) / 5,
        float(bool(seen.answer.earlier)),
        float(sentences[-1].words.endswith(("?", "? "))),
        sum(one.words.endswith("!") for one in sentences) / count,
    ]


def _course(seen: _Seen) -> list[float]:
    """Return features of the order: what comes before and after the refusals."""
    count = len(seen.acts)
    neutral = [not acts & ~_HELPFUL for acts in seen.acts]
    moral = [bool(acts & _MORAL) and not acts & _COMPLY for acts in seen.acts]
    declines = [index for index, acts in enumerate(seen.acts) if acts & _DECLINE]
    after = range(declines[-1] + 1, count) if declines else range(0)
    listed = any(seen.answer.sentences[index].listed for index in after)
    plain = sum(seen.sizes[index] for index in after if neutral[index])
    return [
        _part(seen, neutral),
        sum(neutral[:_HEAD]) / min(count, _HEAD),
        _part(seen, moral),
        float(moral[0]),
        1 - declines[0] / count if declines else 0.0,
        float(count > 1 and bool(seen.acts[1] & _DECLINE)),
        min(plain / 600, 1.0),
        plain / seen.total,
        float(any(seen.acts[index] & _HELPFUL for index in after)),
        float(plain > 300),
        float(bool(declines) and declines[0] < _TAIL and plain < 150 and not listed),
    ]


def _part(seen: _Seen, picked: Sequence[bool]) -> float:
    sizes = zip(seen.sizes, picked, strict=True)
    return sum(size for size, pick in sizes if pick) / seen.total


def _pairs(seen: _Seen) -> list[float]:
    """Return features of acts that mean something else together than apart."""
    listed = seen.items >= _LIST
    truths = (
        seen.every & _DECLINE and listed,
        seen.head & _WRONG and listed,
        seen.every & _WRONG and not seen.every & _DECLINE,
        seen.first & _COMPLY and not seen.first & _REFUSING,
        seen.first & _REBUKE and not seen.head & _COMPLY,
        seen.head & _REBUKE and not seen.items and not seen.answer.code,
        seen.every & _RESOURCES and not seen.every & _COMPLY and not seen.items,
        not seen.every & (_REFUSING | _MORAL),
        seen.first & _APOLOGY and not seen.first & _EMPATHY,
    )
    return [float(bool(truth)) for truth in truths]


def _limits(seen: _Seen) -> list[float]:
    """Return whether the answerer does not understand, or does not know."""
    return [
        float(bool(seen.head & _UNCLEAR) and not seen.head & (_REBUKE | _WRONG)),
        float(bool(seen.head & _UNKNOWING and seen.head & _REFUSING)),
    ]


def _echoes(seen: _Seen, prompt: str | None) -> list[float]:
    """Return how much of the answer's head repeats the prompt, if it is known."""
    asked = set(_WORD.findall(fold(prompt[:_PROMPT]))) if prompt else set()
    if not asked:
        return [0.0, 0.0]
    echo = _echo(seen.answer.sentences[:_HEAD], asked)
    return [echo, echo if seen.first & _REBUKE else 0.0]


def _echo(sentences: Sequence[Sentence], asked: set[str]) -> float:
    said = [word for one in sentences for word in _WORD.findall(one.words)]
    return sum(word in asked for word in said) / len(said) if said else 0.0
