"""From a request to a vector: similar requests point the same way.

The default projection hashes named features into a fixed number of places. It is lexical: it sees
shared words, not shared meaning. Where meaning matters, an embedding model takes over the words of
the intent.

Features come in groups, so that a long text cannot drown an amount. Within a group a feature counts
by its weight, once however often it occurs. Fields that differ in every request or say nothing
about the action are left out: ids of request, tenant and subject, `trace`, `context`,
`context_ref`, `extensions`, `continues` and the policy pin. Of a field whose name ends in `id`,
`hash`, `token`, `at`, `email` and the like, only its presence counts.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Protocol

from demur.errors import InputError
from demur.memory.experience import MAX_SIZE, Vector

Features = dict[str, int]

GROUPS = ("action", "intent", "evidence", "amount", "target", "subject")

_MAX_INTENT_LENGTH = 1000
_MAX_TEXT_LENGTH = 200
_MAX_LEAVES = 128
_MAX_WORDS = 16
_MAX_DEPTH = 8

_PRESENCE_WEIGHT = 4
_VALUE_WEIGHT = 12
_STEP_WEIGHT = 6
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+")
_IDENTIFIER_FIELD = re.compile(
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
    name, words = action.get("type"), _split_words(intent_text(facts))
    named: Features = {}
    if isinstance(name, str):
        named = {f"={_fold_text(name)}": 3} | {f".{part}": 1 for part in _split_words(name)}
    intended = {f"{one} {two}": 1 for one, two in pairwise(words)}
    for word in words:
        intended.update(_word_features(word))
    return {
        "action": named,
        "intent": intended,
        "evidence": _leaf_features(_mapping_at(facts, "evidence")),
        "amount": _leaf_features({k: amount[k] for k in ("currency", "value") if k in amount}),
        "target": _leaf_features(target),
        "subject": _leaf_features(who),
    }


def intent_text(facts: Mapping[str, Any]) -> str:
    """Return the intent of a request, cut to a bounded length; empty if there is none."""
    intent = _mapping_at(facts, "action").get("intent")
    return intent[:_MAX_INTENT_LENGTH] if isinstance(intent, str) else ""


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
    return [
        word if word.isalpha() else _NUMBER.sub(lambda digits: f"#{len(digits[0])}", word)
        for word in words
    ]


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
        field, is_identifier = _field_name(path)
        found[field] = _PRESENCE_WEIGHT
        if not is_identifier:
            for name, weight in _value_features(value).items():
                found[f"{field}={name}"] = weight
    return found


@lru_cache(maxsize=2**12)
def _field_name(path: str) -> tuple[str, bool]:
    """Return the folded name of a field, and whether its value is a mere identifier."""
    return _fold_text(path), _IDENTIFIER_FIELD.search(path) is not None


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
        return {str(value): _VALUE_WEIGHT}
    if isinstance(value, int | float):
        return _number_features(value)
    if isinstance(value, str):
        # The words of a text share the weight of one value.
        words = list(dict.fromkeys(_split_words(value[:_MAX_TEXT_LENGTH])))[:_MAX_WORDS]
        weight = math.isqrt(_VALUE_WEIGHT * _VALUE_WEIGHT // max(1, len(words)))
        return dict.fromkeys(words, weight)
    return {}


def _number_features(value: float) -> Features:
    """Return the number's bucket on a half-octave scale, and the buckets on both sides."""
    if not value:
        return {"0": _VALUE_WEIGHT}
    # Unlike a logarithm, this is exact on every machine.
    mantissa, exponent = math.frexp(abs(value))
    step = 2 * exponent + (mantissa >= _ROOT_HALF)
    sign = "-" if value < 0 else "+"
    return {f"{sign}{step + off}": _VALUE_WEIGHT - _STEP_WEIGHT * abs(off) for off in (-1, 0, 1)}


# The share of each group in a perfect score, in millionths. The default thresholds of
# `MemorySettings` were chosen with these: if you change one, measure the other again.
_GROUP_SHARES = {
    "action": 250_000,
    "intent": 200_000,
    "evidence": 300_000,
    "amount": 120_000,
    "target": 80_000,
    "subject": 50_000,
}
_DEFAULT_SIZE = 512
_MAX_EMBEDDING_SIZE = MAX_SIZE // 2


class Projection(Protocol):
    """Turns requests into vectors. demur never compares vectors of different projections."""

    @property
    def name(self) -> str:
        """The name, including everything that affects vectors, such as version and size."""

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request given as plain JSON. Deterministic."""


class HashedProjection:
    """The default projection: signed feature hashing into `size` places."""

    def __init__(self, size: int = _DEFAULT_SIZE) -> None:
        if not 16 <= size <= MAX_SIZE:
            raise InputError(f"a projection has 16 to {MAX_SIZE} places, not `{size}`")
        self.size = size
        self.name = f"hashed.v1/{size}"

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request."""
        return Vector.from_values(self.hash_features(extract_features(facts), GROUPS))

    def hash_features(
        self, groups: Mapping[str, Features], chosen: Sequence[str]
    ) -> dict[int, int]:
        """Return the sum of the wanted groups by place."""
        total: dict[int, int] = {}
        for group in chosen:
            hashed: dict[int, int] = {}
            for feature, weight in groups[group].items():
                place, sign = _hash_feature(group, feature, self.size)
                hashed[place] = hashed.get(place, 0) + sign * weight
            for place, value in _scale_values(hashed, _GROUP_SHARES[group]).items():
                total[place] = total.get(place, 0) + value
        return total


class EmbeddingProjection:
    """The default projection with an embedding model for the words of the intent.

    `embed` turns a text into numbers, the same for the same text; `name` says which model
    in which version does so.
    """

    def __init__(self, name: str, embed: Callable[[str], Sequence[float]]) -> None:
        self._embed = embed
        self._hashed = HashedProjection()
        self.name = f"{name}+{self._hashed.name}"

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector of a request.

        Raises:
            InputError: The model returned an invalid embedding.
        """
        others = [group for group in GROUPS if group != "intent"]
        places = self._hashed.hash_features(extract_features(facts), others)
        if intent := intent_text(facts):
            places |= enumerate(_quantise_embedding(self._embed(intent)), self._hashed.size)
        return Vector.from_values(places)


@lru_cache(maxsize=2**15)
def _hash_feature(group: str, feature: str, size: int) -> tuple[int, int]:
    name = f"{group}:{feature}".encode("utf-8", "surrogatepass")
    raw = hashlib.blake2b(name, digest_size=8).digest()
    number = int.from_bytes(raw, "little")
    return (number >> 1) % size, 1 if number & 1 else -1


def _scale_values(values: Mapping[int, int], share: int) -> dict[int, int]:
    """Return the values scaled to a squared length of `share`, in integers."""
    norm = sum(value * value for value in values.values())
    if not norm:
        return {}
    factor = math.isqrt((share << 32) // norm)
    return {place: (value * factor + 2**15) >> 16 for place, value in values.items()}


def _quantise_embedding(numbers: Sequence[float]) -> list[int]:
    """Return an embedding as integers, scaled to the share of the intent group."""
    values = [float(number) for number in numbers]
    if len(values) > _MAX_EMBEDDING_SIZE:
        raise InputError(f"an embedding has at most {_MAX_EMBEDDING_SIZE} numbers")
    if not all(map(math.isfinite, values)):
        raise InputError("an embedding holds a number that is not finite")
    peak = max(map(abs, values), default=0.0)
    if not peak:
        return []
    values = [value / peak for value in values]
    # `fsum` rounds once, so the order of summation does not matter.
    length = math.sqrt(math.fsum(value * value for value in values))
    return [round(value / length * math.sqrt(_GROUP_SHARES["intent"])) for value in values]
