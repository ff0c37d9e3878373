"""The learned models of the package `demur-models`, if it is installed.

Without it, everything works by rules alone. Scores are rounded numbers between 0 and 1; guards,
policy and classification see only the scores, and a record keeps them with the model's digest.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol

from demur.errors import DemurError

# `demur doctor` and the docs say how to get the models.
INSTALL_HELP = "pip install 'demur[learned]' demur-models, or `make dev` in a checkout"
_PACKAGE = "demur_models"


class LearnedModelError(DemurError):
    """An installed learned model is unusable."""


class ScoresText(Protocol):
    """A model of requests, or of documents."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the model file."""

    @property
    def thresholds(self) -> dict[str, float]:
        """The scores from which heads count."""

    @property
    def warn_thresholds(self) -> dict[str, float]:
        """The lower scores from which heads warn."""

    def score(self, text: str) -> dict[str, float]:
        """Return the score of each head."""


class ScoresAnswer(Protocol):
    """A model of answers."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the model file."""

    def score_answer(self, prompt: str | None, answer: str) -> float:
        """Return the chance that the answer refuses in full."""


@cache
def load_request_model() -> ScoresText | None:
    """Return the model of requests (harm, injection), or None if it is not installed.

    Raises:
        LearnedModelError: It is installed and its file is not the right one.
    """
    model: ScoresText | None = _open_model("open_requests")
    return model


@cache
def load_document_model() -> ScoresText | None:
    """Return the model of documents (planted instructions), or None if it is not installed.

    Raises:
        LearnedModelError: It is installed and its file is not the right one.
    """
    model: ScoresText | None = _open_model("open_documents")
    return model


@cache
def load_answer_model() -> ScoresAnswer | None:
    """Return the model of answers, or None if it is not installed.

    Raises:
        LearnedModelError: It is installed and its file is not the right one.
    """
    model: ScoresAnswer | None = _open_model("open_answers")
    return model


def models_package() -> str | None:
    """Return the name of the package of learned models, or None if it is not installed."""
    return None if find_spec(_PACKAGE) is None else _PACKAGE


def _import_models() -> ModuleType | None:
    if models_package() is None or find_spec("numpy") is None:
        return None
    try:
        return import_module(_PACKAGE)
    except ImportError as error:
        problem = f"cannot import the learned models: {error}"
        raise LearnedModelError(problem, help=INSTALL_HELP) from error


def _open_model(opener: str) -> Any:
    models = _import_models()
    if models is None:
        return None
    try:
        return getattr(models, opener)()
    except (OSError, ValueError) as error:
        problem = f"cannot load a learned model: {error}"
        raise LearnedModelError(problem, help=INSTALL_HELP) from error
