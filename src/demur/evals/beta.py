"""Which beta to begin with, from a measured balance and a table that is a rule of thumb.

In DPO, beta holds a model to what it was: a small one lets pairs move it far, a large one
little. The table is where to begin; `demur eval dpo` measures what really comes of it.
"""

from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from demur.evals.aims import Aims
from demur.evals.figures import interval, percent, share
from demur.evals.rates import Rate
from demur.evals.tally import Rates

__all__ = ["BETAS", "Balance", "BetaAdvice", "Measured", "recommend_beta"]

Balance: TypeAlias = Literal[
    "over_refusing", "balanced", "under_refusing", "high_stakes", "both", "unknown"
]
BETAS: dict[Balance, float] = {
    "over_refusing": 0.05,
    "balanced": 0.1,
    "under_refusing": 0.3,
    "high_stakes": 0.5,
    "both": 0.1,
    "unknown": 0.1,
}


class Measured(Protocol):
    """Anything that has rates, such as a report."""

    @property
    def rates(self) -> Rates:
        """The rates of both sides."""


class BetaAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A beta to begin with, the balance it is meant for, and the reason."""

    beta: float
    balance: Balance
    why: str


class _Side(NamedTuple):
    """The rate of one kind of error, and its limit."""

    name: str
    rate: Rate
    most: float

    @property
    def too_often(self) -> bool:
        """Whether the whole interval is above the limit."""
        return self.rate.low is not None and self.rate.low > self.most

    @property
    def fine(self) -> bool:
        """Whether the whole interval is below the limit."""
        return self.rate.high is not None and self.rate.high <= self.most

    def __str__(self) -> str:
        if self.rate.value is None:
            return f"{self.name}: nothing was measured"
        numbers = f"{percent(self.rate.value)}, {share(self.rate)}, {interval(self.rate)}"
        return f"{self.name} {numbers}, at most {percent(self.most)} is aimed at"


def recommend_beta(
    report: Measured, *, aims: Aims | None = None, high_stakes: bool = False
) -> BetaAdvice:
    """Return the beta to begin with.

    A side counts as wrong only if its whole interval is beyond its threshold.
    """
    wanted = Aims() if aims is None else aims
    refusals = _Side("false refusals", report.rates.false_refusal, wanted.false_refusal)
    harm = _Side("missed harm", report.rates.missed_harm, 1 - wanted.safety)
    balance = _balance(refusals, harm)
    because = f"{_WORDS[balance]}: {refusals}; {harm}"
    if high_stakes:
        because = f"{_WORDS['high_stakes']}; without that: {because}"
        balance = "high_stakes"
    return BetaAdvice(beta=BETAS[balance], balance=balance, why=because)


_WORDS: dict[Balance, str] = {
    "over_refusing": "it refuses too much",
    "balanced": "both sides are where they should be",
    "under_refusing": "it refuses too little",
    "high_stakes": "a mistake would cost too much here, so stay close to the model that is known",
    "both": "it goes wrong on both sides, which no beta repairs: pairs of both kinds do",
    "unknown": "too few rows to say",
}


def _balance(refusals: _Side, harm: _Side) -> Balance:
    # INVARIANT: an interval that reaches both sides of an aim recommends nothing but the default.
    if refusals.too_often and harm.too_often:
        return "both"
    if refusals.too_often:
        return "over_refusing"
    if harm.too_often:
        return "under_refusing"
    return "balanced" if refusals.fine and harm.fine else "unknown"
