"""The trained part: one weight for each feature, and the chance that they add up to.

`model.json` is written by `tools/train_detect.py`; a file that does not fit the features of
this version is an error, never a wrong answer.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from operator import mul
from typing import NamedTuple

from demur.detect.features import FEATURE_NAMES
from demur.errors import InputError

__all__ = ["SCHEMA_VERSION", "RefusalModel", "builtin_model", "read_model"]

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
        raise InputError(
            f"the feature `{odd}` is not in both the model and demur",
            where=name,
            help="train it again with tools/train_detect.py",
        )
    return RefusalModel(tuple(known[feature] for feature in FEATURE_NAMES), bias)


@cache
def builtin_model() -> RefusalModel:
    """Return the model that demur ships."""
    path = files("demur.detect") / "model.json"
    return read_model(path.read_text(encoding="utf-8"), "model.json")
