"""Scorers: models that score texts by category, in addition to guards.

`Scorer` is the contract, and `open_scorer` opens a model that settings describe. Names are loaded
on first use.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.scorers.brought import BroughtModel, open_scorer
    from demur.scorers.contract import (
        CategoryMeaning,
        CategoryScores,
        Scorer,
        ScorerError,
        ScorerText,
    )
    from demur.scorers.settings import ModelSettings

__all__ = [
    "BroughtModel",
    "CategoryMeaning",
    "CategoryScores",
    "ModelSettings",
    "Scorer",
    "ScorerError",
    "ScorerText",
    "open_scorer",
]

_HOMES = {
    "demur.scorers.brought": "BroughtModel open_scorer",
    "demur.scorers.contract": "CategoryMeaning CategoryScores Scorer ScorerError ScorerText",
    "demur.scorers.settings": "ModelSettings",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
