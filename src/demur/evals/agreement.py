"""How far two judges of the same answers agree: who said what how often, and Cohen's kappa."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from demur.evals.rates import Rate, kappa, rate_of

__all__ = ["Agreement", "agreement_of"]

_NOT_JUDGED = "unjudged"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Two judges side by side.

    `confusion` says how often the first said one thing and the second another, as
    `confusion[first][second]`. What one of them could not judge is only counted.
    """

    first: str
    second: str
    agreed: Rate
    kappa: float | None
    confusion: dict[str, dict[str, int]]
    left_out: int


def agreement_of(first: str, second: str, pairs: Mapping[tuple[str, str], int]) -> Agreement:
    """Return the agreement of two judges, from how often they said which pair of things."""
    judged = {pair: count for pair, count in pairs.items() if _NOT_JUDGED not in pair and count}
    confusion: dict[str, dict[str, int]] = {}
    for (one, other), count in sorted(judged.items()):
        confusion.setdefault(one, {})[other] = count
    total = sum(judged.values())
    same = sum(count for (one, other), count in judged.items() if one == other)
    return Agreement(
        first=first,
        second=second,
        agreed=rate_of(same, total),
        kappa=kappa(Counter(judged)),
        confusion=confusion,
        left_out=sum(pairs.values()) - total,
    )
