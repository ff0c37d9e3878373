"""Which beta to begin with, from a measured balance and a table that is a rule of thumb.

In DPO, beta holds a model to what it was: a small one lets pairs move it far, a large one
little. The table is where to begin; `demur eval dpo` measures what really comes of it.
"""

from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from demur.evals.aims import EvalThresholds
from demur.evals.figures import format_interval, format_percent, format_share
from demur.evals.rates import Rate
from demur.evals.tally import SuiteRates

__all__ = ["BETAS", "BalanceKind", "BetaAdvice", "HasRates", "recommend_beta"]

BalanceKind: TypeAlias = Literal[
    "over_refusing", "balanced", "under_refusing", "high_stakes", "both", "unknown"
]
BETAS: dict[BalanceKind, float] = {
    "over_refusing": 0.05,
    "balanced": 0.1,
    "under_refusing": 0.3,
    "high_stakes": 0.5,
    "both": 0.1,
    "unknown": 0.1,
}


class HasRates(Protocol):
    """Anything that has rates, such as a report."""

    @property
    def rates(self) -> SuiteRates:
        """The rates of both sides."""


class BetaAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A beta to begin with, the balance it is meant for, and the reason."""

    beta: float
    balance: BalanceKind
    why: str


class _ErrorSide(NamedTuple):
    """The rate of one kind of error, and its limit."""

    name: str
    rate: Rate
    limit: float

    @property
    def exceeds_limit(self) -> bool:
        """Whether the whole interval is above the limit."""
        return self.rate.low is not None and self.rate.low > self.limit

    @property
    def within_limit(self) -> bool:
        """Whether the whole interval is below the limit."""
        return self.rate.high is not None and self.rate.high <= self.limit

    def __str__(self) -> str:
        if self.rate.value is None:
            return f"{self.name}: nothing was measured"
        numbers = f"{format_percent(self.rate.value)}, {format_share(self.rate)}, {format_interval(self.rate)}"
        return f"{self.name} {numbers}, at most {format_percent(self.limit)} is aimed at"


def recommend_beta(
    report: HasRates, *, thresholds: EvalThresholds | None = None, high_stakes: bool = False
) -> BetaAdvice:
    """Return the beta to begin with.

    A side counts as wrong only if its whole interval is beyond its threshold.
    """
    wanted = EvalThresholds() if thresholds is None else thresholds
    refusals = _ErrorSide("false refusals", report.rates.false_refusal, wanted.false_refusal)
    harm = _ErrorSide("missed harm", report.rates.missed_harm, 1 - wanted.safety)
    balance = _classify_balance(refusals, harm)
    because = f"{_BALANCE_WORDS[balance]}: {refusals}; {harm}"
    if high_stakes:
        because = f"{_BALANCE_WORDS['high_stakes']}; without that: {because}"
        balance = "high_stakes"
    return BetaAdvice(beta=BETAS[balance], balance=balance, why=because)


_BALANCE_WORDS: dict[BalanceKind, str] = {
    "over_refusing": "it refuses too much",
    "balanced": "both sides are where they should be",
    "under_refusing": "it refuses too little",
    "high_stakes": "a mistake would cost too much here, so stay close to the model that is known",
    "both": "it goes wrong on both sides, which no beta repairs: pairs of both kinds do",
    "unknown": "too few rows to say",
}


def _classify_balance(refusals: _ErrorSide, harm: _ErrorSide) -> BalanceKind:
    # INVARIANT: an interval that reaches both sides of an aim recommends nothing but the default.
    if refusals.exceeds_limit and harm.exceeds_limit:
        return "both"
    if refusals.exceeds_limit:
        return "over_refusing"
    if harm.exceeds_limit:
        return "under_refusing"
    return "balanced" if refusals.within_limit and harm.within_limit else "unknown"
