"""The features of a request that memory compares, in groups, never ids.

Groups keep a long text from drowning an amount. Within a group a feature counts by its weight,
once however often it occurs.

Fields that differ in every request or say nothing about the action are left out: ids of request,
tenant and subject, `trace`, `context`, `context_ref`, `extensions`, `continues` and the policy
pin. Of a field whose name ends in `id`, `hash`, `token`, `at`, `email` and the like, only its
presence counts, not its value.
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

__all__ = ["GROUPS", "Features", "extract_features", "intent_text"]

Features = dict[str, int]

GROUPS = ("action", "intent", "evidence", "amount", "target", "subject")

_MAX_INTENT_LENGTH = 1000
_MAX_TEXT_LENGTH = 200
_MAX_LEAVES = 128
_MAX_WORDS = 16
_MAX_DEPTH = 8

_PRESENT = 4
_VALUE = 12
_NEAR = 6
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+")
_NAMES_ONE = re.compile(
    r"(?:^|[^a-z])(?:ids?|uuid|guid|ulid|hash|digest|token|nonce|signature|at|timestamp"
    r"|email|phone|iban|ip|address)$|(?<=[a-z])(?:I[dD]s?|At|Email|Phone|Address)$"
)
_ROOT_HALF = 0.7071067811865476


def extract_features(facts: Mapping[str, Any]) -> dict[str, Features]:
    """Return the features of a request by group, from its facts as plain JSON."""
    action, subject = _mapping_at(facts, "action"), _mapping_at(facts, "subject")
    amount = _mapping_at(action, "amount")
    known = {"type", "intent", "amount"}
    target = {key: value for key, value in action.items() if key not in known}
    who = {key: subject[key] for key in ("type", "roles") if key in subject}
    return {
        "action": _name_features(action.get("type")),
        "intent": _text_features(intent_text(facts)),
        "evidence": _leaf_features(_mapping_at(facts, "evidence")),
        "amount": _leaf_features(
            {key: amount[key] for key in ("currency", "value") if key in amount}
        ),
        "target": _leaf_features(target),
        "subject": _leaf_features(who),
    }


def intent_text(facts: Mapping[str, Any]) -> str:
    """Return the intent of a request, cut to a bounded length; empty if there is none."""
    said = _mapping_at(facts, "action").get("intent")
    return said[:_MAX_INTENT_LENGTH] if isinstance(said, str) else ""


def _mapping_at(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = facts.get(key)
    return part if isinstance(part, Mapping) else {}


def _fold_text(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def _split_words(text: str) -> list[str]:
    """Return the folded words of a text; a number is replaced by its length."""
    words: list[str] = _WORD.findall(_fold_text(text))
    return [word if word.isalpha() else _NUMBER.sub(_digits_mark, word) for word in words]


def _digits_mark(digits: re.Match[str]) -> str:
    return f"#{len(digits[0])}"


def _name_features(name: object) -> Features:
    if not isinstance(name, str):
        return {}
    return {f"={_fold_text(name)}": 3} | {f".{part}": 1 for part in _split_words(name)}


def _text_features(text: str) -> Features:
    words = _split_words(text)
    found = {f"{one} {two}": 1 for one, two in pairwise(words)}
    for word in words:
        found.update(_word_features(word))
    return found


@lru_cache(maxsize=2**12)
def _word_features(word: str) -> tuple[tuple[str, int], ...]:
    # Short words are mostly function words, which a paraphrase changes first.
    if len(word) <= 3 and word.isascii():
        return ((word, 1),)
    framed = f"^{word}$"
    grams = (framed[start : start + 3] for start in range(len(word)))
    return ((word, 4), *((f"~{gram}", 1) for gram in grams))


def _leaf_features(part: Mapping[str, Any]) -> Features:
    found: Features = {}
    for path, value in islice(_walk_leaves(part, "", 0), _MAX_LEAVES):
        field, names_one = _field_name(path)
        found[field] = _PRESENT
        if not names_one:
            for name, weight in _value_features(value).items():
                found[f"{field}={name}"] = weight
    return found


@lru_cache(maxsize=2**12)
def _field_name(path: str) -> tuple[str, bool]:
    """Return the folded name of a field, and whether its value is a mere identifier."""
    return _fold_text(path), _NAMES_ONE.search(path) is not None


def _walk_leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the leaves by path, in an order that does not depend on the order of keys."""
    if isinstance(value, str | int | float) or depth == _MAX_DEPTH:
        yield path, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _walk_leaves(value[key], f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk_leaves(item, path, depth + 1)


def _value_features(value: Any) -> Features:
    if isinstance(value, bool):
        return {str(value): _VALUE}
    if isinstance(value, int | float):
        return _number_features(value)
    if isinstance(value, str):
        # The words of a text share the weight of one value.
        words = list(dict.fromkeys(_split_words(value[:_MAX_TEXT_LENGTH])))[:_MAX_WORDS]
        weight = math.isqrt(_VALUE * _VALUE // max(1, len(words)))
        return dict.fromkeys(words, weight)
    return {}


def _number_features(value: float) -> Features:
    """Return the number's bucket on a half-octave scale, and the buckets on both sides."""
    if not value:
        return {"0": _VALUE}
    # Unlike a logarithm, this is exact on every machine.
    mantissa, exponent = math.frexp(abs(value))
    step = 2 * exponent + (mantissa >= _ROOT_HALF)
    sign = "-" if value < 0 else "+"
    return {f"{sign}{step + off}": _VALUE - _NEAR * abs(off) for off in (-1, 0, 1)}
