"""Scorers for tests: each does one thing that a model may do."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from demur.codes.vocabulary import Surface
from demur.model.finding import Action
from demur.scorers.contract import (
    CategoryMeaning,
    CategoryScores,
    OnScorerFailure,
    ScorerText,
)

__all__ = ["SampleScorer", "failing_scorer", "slow_scorer"]

ScoreText = Callable[[ScorerText], CategoryScores]


def score_by_words(one: ScorerText) -> CategoryScores:
    """Return high scores for texts that name their category."""
    text = one.text.lower()
    scores = {"fraud": 0.91234 if "scam" in text else 0.02, "toxic": 0.4 if "fool" in text else 0}
    return CategoryScores(scores, frozenset({"fraud"} if "scam" in text else ()))


class SampleScorer:
    """A scorer that counts its calls."""

    meanings: Mapping[str, CategoryMeaning] = {
        "fraud": CategoryMeaning("CONTENT_FRAUD", Action.BLOCK, "scams"),
        "toxic": CategoryMeaning("CONTENT_HARASSMENT"),
    }

    def __init__(
        self,
        score: ScoreText = score_by_words,
        *,
        name: str = "sample",
        surfaces: Collection[Surface] = (Surface.INPUT, Surface.OUTPUT),
        is_local: bool = False,
        on_failure: OnScorerFailure = "closed",
        timeout_s: float = 20,
    ) -> None:
        self.name, self.model, self.digest = name, "sample-1", "sha256:1"
        self.surfaces = frozenset(surfaces)
        self.is_local, self.on_failure, self.timeout_s = is_local, on_failure, timeout_s
        self.texts: list[ScorerText] = []
        self._score = score

    def score(self, texts: Sequence[ScorerText]) -> list[CategoryScores]:
        """Return the scores of each text."""
        self.texts += texts
        return [self._score(one) for one in texts]


def failing_scorer(error: Exception, **settings: Any) -> SampleScorer:
    """Return a scorer that always raises."""

    def score(_one: ScorerText) -> CategoryScores:
        raise error

    return SampleScorer(score, **settings)


def slow_scorer(seconds: float = 30, **settings: Any) -> SampleScorer:
    """Return a scorer that takes its time."""

    def score(one: ScorerText) -> CategoryScores:
        time.sleep(seconds)
        return score_by_words(one)

    return SampleScorer(score, **settings)
