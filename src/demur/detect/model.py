"""The trained model: the features of an answer, one weight for each, and the resulting chance.

No word and no topic is a feature, only what sentences do. So a model trained on some topics and
languages serves for others. `tools/train_detect.py` writes `model.json`; loading a file that
does not fit the features of this version is an error.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache, reduce
from importlib.resources import files
from operator import mul, or_
from typing import NamedTuple

from demur.detect.prompt_intent import INTENT_FEATURES as ASKED
from demur.detect.prompt_intent import intent_features, read_prompt
from demur.detect.speech_acts import (
    COMPLY,
    CURT_ACTS,
    DECLINE,
    HELPING,
    MORAL,
    REBUKE,
    REFUSING,
    UNKNOWING,
    SpeechAct,
    act_bits,
)
from demur.errors import InputError
from demur.text.prose import ParsedAnswer, fold_sentence

_HEAD = 3
_TAIL = 2
_LIST = 3
_PROMPT = 2000
_ACTS = tuple(act for act in SpeechAct if act is not SpeechAct.TRAP and act not in CURT_ACTS)
_WORD = re.compile(r"[^\W\d_]{4,}")


_WRONG, _RESOURCES, _UNCLEAR = act_bits("wrong"), act_bits("resources"), act_bits("unclear")
_APOLOGY, _EMPATHY = act_bits("apology"), act_bits("empathy")

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
FEATURE_NAMES = (
    *(f"{where}:{act.name.lower()}" for where in ("first", "head", "any", "tail") for act in _ACTS),
    *(f"share:{act.name.lower()}" for act in _ACTS),
    *_FORM,
    *_COURSE,
    *_PAIRS,
    *_LIMITS,
    *_ECHO,
    *ASKED,
)


class _FeatureInput(NamedTuple):
    """An answer and its acts, with sums that several features need."""

    answer: ParsedAnswer
    acts: Sequence[int]
    sizes: Sequence[int]
    total: int
    items: int
    first: int
    head: int
    every: int


def extract_features(answer: ParsedAnswer, acts: Sequence[int], prompt: str | None) -> list[float]:
    """Return the features of an answer with at least one sentence, as FEATURE_NAMES orders."""
    sizes = [one.end - one.start for one in answer.sentences]
    source = _FeatureInput(
        answer=answer,
        acts=acts,
        sizes=sizes,
        total=sum(sizes),
        items=sum(one.in_list for one in answer.sentences),
        first=acts[0],
        head=_union_bits(acts[:_HEAD]),
        every=_union_bits(acts),
    )
    places = (source.first, source.head, source.every, _union_bits(acts[-_TAIL:]))
    row = [float(place >> act & 1) for place in places for act in _ACTS]
    row += [*_act_shares(source), *_form_features(source)]
    row += [*_course_features(source), *_pair_features(source)]
    row += [
        float(bool(source.head & _UNCLEAR) and not source.head & (REBUKE | _WRONG)),
        float(bool(source.head & UNKNOWING and source.head & REFUSING)),
    ]
    row += _echo_features(source, prompt)
    return row + intent_features(answer, acts, read_prompt(prompt))


def _union_bits(acts: Iterable[int]) -> int:
    return reduce(or_, acts, 0)


def _act_shares(source: _FeatureInput) -> list[float]:
    """Return for each act the share of the answer that performs it."""
    sums = [0] * len(SpeechAct)
    for size, acts in zip(source.sizes, source.acts, strict=True):
        left = acts
        while left:
            low = left & -left
            sums[low.bit_length() - 1] += size
            left ^= low
    return [sums[act] / source.total for act in _ACTS]


def _form_features(source: _FeatureInput) -> list[float]:
    sentences = source.answer.sentences
    count = len(sentences)
    return [
        min(math.log1p(source.total) / 8, 1.2),
        min(math.log1p(count) / 4, 1.2),
        float(source.total < 160),
        float(count == 1),
        min(source.items, 10) / 10,
        source.items / count,
        float(source.answer.code),
        min(source.answer.quotes, 5) / 5,
        float(bool(source.answer.earlier_voices)),
        float(sentences[-1].words.endswith(("?", "? "))),
        sum(one.words.endswith("!") for one in sentences) / count,
    ]


def _course_features(source: _FeatureInput) -> list[float]:
    """Return features of the order: what comes before and after the refusals."""
    count = len(source.acts)
    neutral = [not acts & ~HELPING for acts in source.acts]
    moral = [bool(acts & MORAL) and not acts & COMPLY for acts in source.acts]
    declines = [index for index, acts in enumerate(source.acts) if acts & DECLINE]
    after = range(declines[-1] + 1, count) if declines else range(0)
    has_list = any(source.answer.sentences[index].in_list for index in after)
    plain = sum(source.sizes[index] for index in after if neutral[index])
    return [
        _text_share(source, neutral),
        sum(neutral[:_HEAD]) / min(count, _HEAD),
        _text_share(source, moral),
        float(moral[0]),
        1 - declines[0] / count if declines else 0.0,
        float(count > 1 and bool(source.acts[1] & DECLINE)),
        min(plain / 600, 1.0),
        plain / source.total,
        float(any(source.acts[index] & HELPING for index in after)),
        float(plain > 300),
        float(bool(declines) and declines[0] < _TAIL and plain < 150 and not has_list),
    ]


def _text_share(source: _FeatureInput, picked: Sequence[bool]) -> float:
    sizes = zip(source.sizes, picked, strict=True)
    return sum(size for size, pick in sizes if pick) / source.total


def _pair_features(source: _FeatureInput) -> list[float]:
    """Return features of acts that mean something else together than apart."""
    has_list = source.items >= _LIST
    truths = (
        source.every & DECLINE and has_list,
        source.head & _WRONG and has_list,
        source.every & _WRONG and not source.every & DECLINE,
        source.first & COMPLY and not source.first & REFUSING,
        source.first & REBUKE and not source.head & COMPLY,
        source.head & REBUKE and not source.items and not source.answer.code,
        source.every & _RESOURCES and not source.every & COMPLY and not source.items,
        not source.every & (REFUSING | MORAL),
        source.first & _APOLOGY and not source.first & _EMPATHY,
    )
    return [float(bool(truth)) for truth in truths]


def _echo_features(source: _FeatureInput, prompt: str | None) -> list[float]:
    """Return how much of the answer's head repeats the prompt, if it is known."""
    prompt_words = set(_WORD.findall(fold_sentence(prompt[:_PROMPT]))) if prompt else set()
    if not prompt_words:
        return [0.0, 0.0]
    head = source.answer.sentences[:_HEAD]
    words = [word for one in head for word in _WORD.findall(one.words)]
    echo = sum(word in prompt_words for word in words) / len(words) if words else 0.0
    return [echo, echo if source.first & REBUKE else 0.0]


SCHEMA_VERSION = "detect_model.v1"
_MAX_LOGIT = 30.0


class RefusalModel(NamedTuple):
    """Weights in the order of the features."""

    weights: tuple[float, ...]
    bias: float

    def refusal_chance(self, row: Sequence[float]) -> float:
        """Return how likely an answer with these features refuses in full."""
        total = self.bias + sum(map(mul, self.weights, row))
        return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, total))))


def read_model(text: str, name: str = "model") -> RefusalModel:
    """Return the model written in `text`.

    Raises:
        InputError: It is no model, or not one for the features of this version.
    """
    try:
        content = json.loads(text)
        version, weights = content["schema_version"], content["weights"]
        bias = float(content["bias"])
        known = {key: float(value) for key, value in weights.items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InputError("not a model of refusals", where=name) from error
    if version != SCHEMA_VERSION:
        known_help = f"this is {SCHEMA_VERSION}"
        raise InputError(f"unknown schema version `{version}`", where=name, help=known_help)
    if set(known) != set(FEATURE_NAMES):
        odd = min(set(known) ^ set(FEATURE_NAMES))
        problem = f"the feature `{odd}` is not in both the model and demur"
        help_text = "train it again with tools/train_detect.py"
        raise InputError(problem, where=name, help=help_text)
    return RefusalModel(tuple(known[feature] for feature in FEATURE_NAMES), bias)


@cache
def builtin_model() -> RefusalModel:
    """Return the model that demur ships."""
    path = files("demur.detect") / "model.json"
    return read_model(path.read_text(encoding="utf-8"), "model.json")
