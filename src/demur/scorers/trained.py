"""A small classifier of a domain, made by `demur guard train`: one weight for each hashed feature.

Features are words, pairs of words, and pieces of words. The file is an `.npz` without pickled
objects that also holds its card: what it was trained on, its code, and its threshold.
"""

import hashlib
import io
import math
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from zlib import crc32

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Effect, RefusalClass
from demur.errors import InputError, MissingExtraError, error_reason
from demur.model.finding import Action
from demur.scorers.contract import SCORE_DIGITS, CategoryScores, ScorerText
from demur.scorers.settings import ModelSettings

CARD_VERSION: Literal["trained_guard.v1"] = "trained_guard.v1"
# The one category of a trained classifier, in rules and in findings.
HOLD_CATEGORY = "hold"
FEATURE_COUNT = 1 << 18
# Longer texts are scored in parts.
MAX_TEXT_LENGTH = 2000
MAX_MODEL_BYTES = 16_000_000
_CARD_MEMBER, _ARRAYS = "card", ("features", "weights", "bias")
_PIECE_LENGTHS = (3, 5)
# Scripts without spaces are read by the character. A long run of letters is several words.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}_]{{1,40}}")
_ACTION_ORDER = (Action.WARN, Action.ESCALATE, Action.BLOCK)
_FIXED_FIELDS = ("codes", "actions", "flag_above")
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class GuardCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trained classifier is: its meaning, its rows, and the rate that was promised.

    A score above `threshold` is flagged with `code` and `action`. At most `max_false_holds` of
    texts like its allow rows are flagged, with the stated `confidence`. `ordinary_rows` were
    added by demur. `checksum` is that of features and weights.
    """

    name: str
    code: str
    action: Action
    threshold: _Share
    max_false_holds: _Share
    confidence: _Share
    hold_rows: _Count
    allow_rows: _Count
    allow_groups: _Count
    ordinary_rows: _Count = 0
    rows_digest: str
    l2: float
    folds: _Count
    seed: int
    date: str = ""
    checksum: str = ""
    schema_version: Literal["trained_guard.v1"] = CARD_VERSION


def find_features(text: str) -> list[int]:
    """Return the numbers of the features of a text, each once, in order."""
    words = split_words(text)
    found: set[int] = set()
    for word in words:
        found.update(_hash_word(word))
    found.update(_hash_feature(f"{one} {other}") for one, other in pairwise(words))
    return sorted(found)


def split_words(text: str) -> list[str]:
    """Return the folded words of a text; scripts without spaces give characters."""
    folded = text.casefold()
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        folded = "".join(one for one in folded if unicodedata.category(one) != "Cf")
    return _WORD.findall(folded)


@lru_cache(maxsize=8192)
def _hash_word(word: str) -> tuple[int, ...]:
    marked = f"<{word}>"
    pieces = [marked[at : at + n] for n in _PIECE_LENGTHS for at in range(len(marked) - n + 1)]
    return tuple(map(_hash_feature, {f"={word}", *pieces}))


def _hash_feature(feature: str) -> int:
    return crc32(feature.encode("utf-8", "replace")) % FEATURE_COUNT


def to_score(logit: float) -> float:
    """Return a logit as a rounded score."""
    # INVARIANT: the score of a text lies between 0 and 1.
    chance = 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - 1 / (1 + math.exp(logit))
    return round(min(1.0, max(0.0, chance)), SCORE_DIGITS)


class GuardWeights(NamedTuple):
    """The features that count, their weights, and the logit of a text without any of them."""

    features: Sequence[int]
    weights: Sequence[float]
    bias: float


class TrainedClassifier:
    """A trained classifier as a backend; it neither waits nor asks anybody. Safe to share."""

    def __init__(self, card: GuardCard, weights: GuardWeights, digest: str) -> None:
        self.card, self.digest = card, digest
        self._bias = weights.bias
        self._weights = dict(zip(weights.features, weights.weights, strict=True))

    def score_text(self, text: str) -> float:
        """Return the score of one text."""
        found = find_features(text)
        weight = math.fsum(self._weights.get(feature, 0.0) for feature in found)
        return to_score(self._bias + weight / math.sqrt(max(1, len(found))))

    def score(self, texts: Sequence[ScorerText], deadline: float) -> list[CategoryScores]:
        """Return the scores of each text."""
        del deadline  # It takes less than a millisecond.
        return [self._read_score(self.score_text(one.text)) for one in texts]

    def _read_score(self, score: float) -> CategoryScores:
        flagged = frozenset({HOLD_CATEGORY} if score > self.card.threshold else ())
        return CategoryScores({HOLD_CATEGORY: score}, flagged)


def open_trained_guard(
    name: str, settings: ModelSettings, registry: Registry
) -> tuple[ModelSettings, TrainedClassifier]:
    """Return the classifier in the file of the settings, and the settings with what its card says.

    Raises:
        InputError: The file cannot be used, or a setting contradicts its card.
        MissingExtraError: numpy is not installed.
    """
    where = f"guards.models.{name}"
    for field in _FIXED_FIELDS:
        if getattr(settings, field) not in ({}, None):
            problem = f"`{field}` belongs to the model file and cannot be changed by a setting"
            help_text = 'train it again, or set `action = "warn"` and decide by its score'
            raise InputError(problem, where=f"{where}.{field}", help=help_text)
    path = Path(settings.file)
    found = read_guard_file(path, where=f"{where}.file")
    check_guard_code(found.card.code, registry, where=f"{where}.file")
    # A setting may weaken what the model does, and never make it stricter than it was trained for.
    action = min(found.card.action, settings.action, key=_ACTION_ORDER.index)
    whole = msgspec.structs.replace(
        settings,
        model=path.name,
        codes={HOLD_CATEGORY: found.card.code},
        action=action,
        flag_above=found.card.threshold,
    )
    return whole, found


def check_guard_code(code: str, registry: Registry, *, where: str) -> None:
    """Check that a trained classifier may hold by a code.

    Raises:
        InputError: It is not registered, refuses nothing, or is a hard block.
    """
    entry = registry.get(code)
    if entry is None:
        problem = f"the code `{code}` is not registered"
        raise InputError(problem, where=where, help="`demur codes list`")
    if entry.effect is not Effect.REFUSE or not entry.decided:
        problem = f"`{code}` is not a code that refuses"
        raise InputError(problem, where=where, help="for example `TOPIC_DENIED`")
    if entry.refusal_class is RefusalClass.HARD_BLOCK:
        problem = f"`{code}` is a hard block, which a trained classifier cannot decide"
        help_text = "choose a code that a person can lift, for example `TOPIC_DENIED`"
        raise InputError(problem, where=where, help=help_text)


def write_guard_file(card: GuardCard, weights: GuardWeights, file: Any) -> None:
    """Write a model file: the card and the arrays, in the same bytes for the same values."""
    np = load_numpy()
    arrays = {
        "features": np.asarray(weights.features, dtype=np.int64),
        "weights": np.asarray(weights.weights, dtype=np.float64),
        "bias": np.asarray(weights.bias, dtype=np.float64),
    }
    sealed = msgspec.structs.replace(card, checksum=_checksum(arrays.values()))
    text = msgspec.json.format(msgspec.json.encode(sealed, order="sorted"), indent=2)
    np.savez(file, **{_CARD_MEMBER: np.frombuffer(text, dtype=np.uint8)}, **arrays)


def read_guard_file(path: Path, *, where: str) -> TrainedClassifier:
    """Return the classifier in a model file; `where` is the place of errors.

    Raises:
        InputError: There is no such file, or it is not a whole model file.
        MissingExtraError: numpy is not installed.
    """
    load_numpy()
    help_text = "`demur guard train` makes such files"
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        problem = f"cannot read `{path.name}`: {error_reason(error)}"
        raise InputError(problem, where=where, help=help_text) from error
    try:
        card, weights = _unpack_model(raw)
    except Exception as error:
        # numpy fails in many ways on a damaged file.
        problem = f"`{path.name}` is not a model of this version: {error}"
        raise InputError(problem, where=where, help=help_text) from error
    return TrainedClassifier(card, weights, f"sha256:{hashlib.sha256(raw).hexdigest()}")


def _unpack_model(raw: bytes) -> tuple[GuardCard, GuardWeights]:
    np = load_numpy()
    _check_members(raw)
    with np.load(io.BytesIO(raw), allow_pickle=False) as members:
        text = members[_CARD_MEMBER].tobytes()
        arrays = {name: members[name] for name in _ARRAYS}
    card = msgspec.json.decode(text, type=GuardCard)
    if card.checksum != _checksum(arrays.values()):
        raise ValueError("its checksum is wrong")
    features, weights, bias = (arrays[name] for name in _ARRAYS)
    if features.ndim != 1 or features.shape != weights.shape or bias.ndim:
        raise ValueError("features and weights do not match")
    if not np.isfinite(weights).all() or not np.isfinite(bias):
        raise ValueError("its weights are not numbers")
    return card, GuardWeights(features.tolist(), weights.tolist(), float(bias))


def _check_members(raw: bytes) -> None:
    """Check names and sizes before anything is unpacked."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        listed = archive.infolist()
    names = sorted(one.filename for one in listed)
    if names != sorted(f"{name}.npy" for name in (_CARD_MEMBER, *_ARRAYS)):
        raise ValueError("it holds other parts")
    if sum(one.file_size for one in listed) > MAX_MODEL_BYTES:
        raise ValueError(f"it has more than {MAX_MODEL_BYTES} bytes")


def _checksum(arrays: Iterable[Any]) -> str:
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(f"{array.dtype.str}{array.shape}".encode())
        whole.update(array.tobytes())
    return f"sha256:{whole.hexdigest()}"


def load_numpy() -> Any:
    """Return the module `numpy`.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module("numpy")
    except ImportError as error:
        problem = "trained classifiers need the `numpy` package"
        raise MissingExtraError(problem, help="pip install 'demur[learned]'") from error
