"""Agreement of two judges on the same answers: a confusion table and Cohen's kappa."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from demur.evals.rates import Rate, cohens_kappa, make_rate

__all__ = ["Agreement", "measure_agreement"]

_NOT_JUDGED = "unjudged"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Two judges side by side.

    `confusion[first][second]` counts the answers on which they said `first` and `second`.
    `left_out` counts the answers that one of them could not judge.
    """

    first: str
    second: str
    agreed: Rate
    kappa: float | None
    confusion: dict[str, dict[str, int]]
    left_out: int


def measure_agreement(first: str, second: str, counts: Mapping[tuple[str, str], int]) -> Agreement:
    """Return the agreement of two judges, from the counts of each pair of outcomes."""
    judged = {pair: count for pair, count in counts.items() if _NOT_JUDGED not in pair and count}
    confusion: dict[str, dict[str, int]] = {}
    for (one, other), count in sorted(judged.items()):
        confusion.setdefault(one, {})[other] = count
    total = sum(judged.values())
    same = sum(count for (one, other), count in judged.items() if one == other)
    return Agreement(
        first=first,
        second=second,
        agreed=make_rate(same, total),
        kappa=cohens_kappa(Counter(judged)),
        confusion=confusion,
        left_out=sum(counts.values()) - total,
    )
