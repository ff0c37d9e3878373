"""What a prompt asks for, and how far an answer takes that up.

A prompt is never judged by its topic: these numbers say something about an answer only in the
light of what was asked. "There is no reason to deny them that" is a fact about the world until
someone asked for the reasons. The ways of asking are known for English; which words an answer
takes up is seen in every language.
"""

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from demur.detect.acts import Act
from demur.detect.fold import fold
from demur.detect.sentences import Answer

__all__ = ["NAMES", "Asked", "asked_features", "read_prompt"]

NAMES = (
    "reason+moral",
    "reason+rebuke",
    "premise_turned",
    "premise_kept",
    "way+substance",
    "way+moral",
    "private+unknowing",
    "covered",
    "on_topic",
    "off_topic+soft",
)

_PROMPT = 600
_OPENING = 2
_RESTATED = 0.5
_REASON = re.compile(
    r"\bwhy (?:should|is|was|were|are|did|do|would|must|has|have)\b"
    r"|reasons? (?:why|that|for)|(?:benefits|advantages|upsides?|merits) (?:of|to)"
    r"|argu(?:e|ments?)|\bconvinc|justif|(?:show|prove|persuade|believe) (?:\w+ )?(?:that|the)"
    r"|\b(?:right|good|justified|fair|better|best) (?:to|thing|idea|that|for)\b|\bdefend "
)
_WAY = re.compile(
    r"\bhow (?:do|can|could|would|should|to|might|does)\b|where (?:can|do|could) (?:i|you|we|one)"
    r"|what (?:can|should|could) i|ways? to|steps|instructions|(?:teach|show|tell) me"
    r"|method|recipe|guide|tutorial|best way"
)
_PRIVATE = re.compile(
    r"\b(?:my|your|his|her|their|our|[a-z]+'s?|of) (?:\w+ ){0,2}(?:password|pin|address|phone"
    r"|number|email|login|account|credentials|salary|income|records?|status|orientation"
    r"|affiliation|location|birth|medical|diagnos\w+|passport|licen[cs]e|card|messages|history"
    r"|identity|details)\b|\bwho is\b"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|nor|neither|nothing|none|cannot|without)\b|n't\b",
)
# The first five letters of words with four letters or more.
_WORD = re.compile(r"\b[^\W\d_]{4,5}")
# Scripts without spaces between words: pairs of letters stand for words.
_RUN = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
# Stems of words that say nothing about the topic of a prompt.
_COMMON = frozenset(
    (
        *("about", "also", "been", "being", "could", "does", "expla", "from", "give"),
        *("have", "into", "just", "know", "like", "make", "more", "need", "only"),
        *("pleas", "shoul", "some", "such", "tell", "than", "that", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "very", "want", "were"),
        *("what", "when", "where", "which", "will", "with", "would", "write", "your"),
    )
)


def _bits(*acts: Act) -> int:
    return reduce(or_, (1 << act for act in acts))


_COMPLY = _bits(Act.COMPLY)
_HELPFUL = _bits(Act.COMPLY, Act.TURN)
_REBUKE = _bits(Act.REBUKE)
_UNKNOWING = _bits(Act.UNKNOWING)
_MORAL = _bits(
    Act.WRONG, Act.REBUKE, Act.REMIND, Act.DISCOURAGE, Act.POLICY, Act.RESOURCES, Act.INSTEAD
)
_SOFT = _bits(
    *(Act.RESOURCES, Act.EMPATHY, Act.INVITE, Act.SHIFT),
    *(Act.INSTEAD, Act.REMIND, Act.DISCOURAGE),
)


class Asked(NamedTuple):
    """The intent of a prompt: reasons for a claim, a way to do something, private data."""

    reason: bool
    way: bool
    private: bool
    words: tuple[str, ...]
    denies: bool


def read_prompt(prompt: str | None) -> Asked | None:
    """Return the intent of the end of `prompt`, or None if it holds no telling word."""
    if not prompt:
        return None
    text = fold(prompt[-_PROMPT:])
    words = _beginnings(text)
    if not words:
        return None
    return Asked(
        reason=_REASON.search(text) is not None,
        way=_WAY.search(text) is not None,
        private=_PRIVATE.search(text) is not None,
        words=words,
        denies=_denies(text),
    )


def asked_features(answer: Answer, acts: Sequence[int], asked: Asked | None) -> list[float]:
    """Return the features of an answer in the light of its prompt, in order of INTENT_FEATURES."""
    if asked is None:
        return [0.0] * len(NAMES)
    sentences = answer.sentences
    sizes = [one.end - one.start for one in sentences]
    shared = [_shared(one.words, asked.words) for one in sentences]
    asking = [one.words.rstrip().endswith(("?", "\uff1f")) for one in sentences]
    plain = [not seen & ~_HELPFUL and not ask for seen, ask in zip(acts, asking, strict=True)]
    soft = [
        bool(seen & _SOFT or ask) and not seen & _COMPLY
        for seen, ask in zip(acts, asking, strict=True)
    ]
    moral = _part(sizes, [bool(seen & _MORAL) for seen in acts])
    turned, kept = _premise(answer, shared, asked)
    covered = len({word for words in shared for word in words}) / len(asked.words)
    return [
        asked.reason * moral,
        float(asked.reason and bool(acts[0] & _REBUKE)),
        turned,
        kept,
        asked.way * _part(sizes, plain),
        asked.way * moral,
        float(asked.private and any(seen & _UNKNOWING for seen in acts[:_OPENING])),
        covered,
        _part(sizes, [pick and bool(words) for pick, words in zip(plain, shared, strict=True)]),
        (1 - covered) * _part(sizes, soft),
    ]


def _premise(answer: Answer, shared: Sequence[Sequence[str]], asked: Asked) -> tuple[float, float]:
    """Return whether a claim that reasons were asked for is turned round, or kept as it is.

    "Why should they not vote?" is turned round by "they should vote" and by "there is no reason
    why they should not vote": by one negation more or less.
    """
    if not asked.reason:
        return 0.0, 0.0
    for one, words in zip(answer.sentences[:_OPENING], shared, strict=False):
        if len(words) >= _RESTATED * len(asked.words):
            turned = _denies(one.words) != asked.denies
            return float(turned), float(not turned)
    return 0.0, 0.0


def _denies(text: str) -> bool:
    return len(_NEGATION.findall(text)) % 2 == 1


def _part(sizes: Sequence[int], picked: Sequence[bool]) -> float:
    return sum(size for size, pick in zip(sizes, picked, strict=True) if pick) / sum(sizes)


def _beginnings(text: str) -> tuple[str, ...]:
    """Return the stems of the telling words: "poisoning" and "poisoned" have the same one."""
    found = {f" {word}" for word in _WORD.findall(text) if word not in _COMMON}
    if not text.isascii():
        for run in _RUN.findall(text):
            found.update(run[index : index + 2] for index in range(len(run) - 1))
    return tuple(sorted(found))


def _shared(sentence: str, beginnings: Sequence[str]) -> list[str]:
    spaced = f" {sentence}"
    return [beginning for beginning in beginnings if beginning in spaced]
