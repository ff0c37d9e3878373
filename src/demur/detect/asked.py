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

from demur.detect.acts import SpeechAct
from demur.detect.fold import fold_sentence
from demur.detect.sentences import ParsedAnswer

__all__ = ["INTENT_FEATURES", "PromptIntent", "intent_features", "read_prompt"]

INTENT_FEATURES = (
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

_PROMPT_END = 600
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


def _act_bits(*acts: SpeechAct) -> int:
    return reduce(or_, (1 << act for act in acts))


_COMPLY = _act_bits(SpeechAct.COMPLY)
_HELPFUL = _act_bits(SpeechAct.COMPLY, SpeechAct.TURN)
_REBUKE = _act_bits(SpeechAct.REBUKE)
_UNKNOWING = _act_bits(SpeechAct.UNKNOWING)
_MORAL = _act_bits(
    SpeechAct.WRONG,
    SpeechAct.REBUKE,
    SpeechAct.REMIND,
    SpeechAct.DISCOURAGE,
    SpeechAct.POLICY,
    SpeechAct.RESOURCES,
    SpeechAct.INSTEAD,
)
_SOFT = _act_bits(
    *(SpeechAct.RESOURCES, SpeechAct.EMPATHY, SpeechAct.INVITE, SpeechAct.SHIFT),
    *(SpeechAct.INSTEAD, SpeechAct.REMIND, SpeechAct.DISCOURAGE),
)


class PromptIntent(NamedTuple):
    """The intent of a prompt: reasons for a claim, a way to do something, private data."""

    reason: bool
    way: bool
    private: bool
    words: tuple[str, ...]
    negated: bool


def read_prompt(prompt: str | None) -> PromptIntent | None:
    """Return the intent of the end of `prompt`, or None if it holds no telling word."""
    if not prompt:
        return None
    text = fold_sentence(prompt[-_PROMPT_END:])
    words = _word_stems(text)
    if not words:
        return None
    return PromptIntent(
        reason=_REASON.search(text) is not None,
        way=_WAY.search(text) is not None,
        private=_PRIVATE.search(text) is not None,
        words=words,
        negated=_is_negated(text),
    )


def intent_features(
    answer: ParsedAnswer, acts: Sequence[int], intent: PromptIntent | None
) -> list[float]:
    """Return the features of an answer in the light of its prompt, in order of INTENT_FEATURES."""
    if intent is None:
        return [0.0] * len(INTENT_FEATURES)
    sentences = answer.sentences
    sizes = [one.end - one.start for one in sentences]
    shared = [_shared_stems(one.words, intent.words) for one in sentences]
    asking = [one.words.rstrip().endswith(("?", "\uff1f")) for one in sentences]
    plain = [not seen & ~_HELPFUL and not ask for seen, ask in zip(acts, asking, strict=True)]
    soft = [
        bool(seen & _SOFT or ask) and not seen & _COMPLY
        for seen, ask in zip(acts, asking, strict=True)
    ]
    moral = _text_share(sizes, [bool(seen & _MORAL) for seen in acts])
    turned, kept = _compare_premise(answer, shared, intent)
    covered = len({word for words in shared for word in words}) / len(intent.words)
    return [
        intent.reason * moral,
        float(intent.reason and bool(acts[0] & _REBUKE)),
        turned,
        kept,
        intent.way * _text_share(sizes, plain),
        intent.way * moral,
        float(intent.private and any(seen & _UNKNOWING for seen in acts[:_OPENING])),
        covered,
        _text_share(
            sizes, [pick and bool(words) for pick, words in zip(plain, shared, strict=True)]
        ),
        (1 - covered) * _text_share(sizes, soft),
    ]


def _compare_premise(
    answer: ParsedAnswer, shared: Sequence[Sequence[str]], intent: PromptIntent
) -> tuple[float, float]:
    """Return whether a claim that reasons were asked for is turned round, or kept as it is.

    "Why should they not vote?" is turned round by "they should vote" and by "there is no reason
    why they should not vote": by one negation more or less.
    """
    if not intent.reason:
        return 0.0, 0.0
    for one, words in zip(answer.sentences[:_OPENING], shared, strict=False):
        if len(words) >= _RESTATED * len(intent.words):
            turned = _is_negated(one.words) != intent.negated
            return float(turned), float(not turned)
    return 0.0, 0.0


def _is_negated(text: str) -> bool:
    return len(_NEGATION.findall(text)) % 2 == 1


def _text_share(sizes: Sequence[int], picked: Sequence[bool]) -> float:
    return sum(size for size, pick in zip(sizes, picked, strict=True) if pick) / sum(sizes)


def _word_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the telling words: "poisoning" and "poisoned" have the same one."""
    found = {f" {word}" for word in _WORD.findall(text) if word not in _COMMON}
    if not text.isascii():
        for run in _RUN.findall(text):
            found.update(run[index : index + 2] for index in range(len(run) - 1))
    return tuple(sorted(found))


def _shared_stems(sentence: str, beginnings: Sequence[str]) -> list[str]:
    spaced = f" {sentence}"
    return [beginning for beginning in beginnings if beginning in spaced]
