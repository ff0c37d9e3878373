"""Shares with their uncertainty, and tests of whether two of them differ by more than noise.

Everything is exact or in closed form, from the standard library alone.
"""

import math
from collections.abc import Mapping
from statistics import NormalDist

import msgspec

from demur.errors import InputError

__all__ = [
    "CONFIDENCE",
    "Rate",
    "cohens_kappa",
    "mcnemar_test",
    "mcnemar_one_sided",
    "make_rate",
    "wilson_interval",
]

CONFIDENCE = 0.95


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A number of hits out of a total, their share, and its Wilson interval.

    `value`, `low` and `high` are None if the total is 0.
    """

    hits: int
    of: int
    value: float | None
    low: float | None
    high: float | None


def make_rate(hits: int, total: int, confidence: float = CONFIDENCE) -> Rate:
    """Return the share of `hits` in `of`.

    Raises:
        InputError: `hits` is negative or above the total.
    """
    if not 0 <= hits <= total:
        raise InputError(f"`{hits}` hits are not between 0 and the total of `{total}`")
    if not total:
        return Rate(hits=0, of=0, value=None, low=None, high=None)
    low, high = wilson_interval(hits, total, confidence)
    return Rate(hits=hits, of=total, value=hits / total, low=low, high=high)


def wilson_interval(hits: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval around `hits / of`, for `of` above zero.

    Raises:
        InputError: The confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InputError(f"a confidence is between 0 and 1, not `{confidence}`")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, shrink = hits / total, 1 + z * z / total
    middle = (share + z * z / (2 * total)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    # At 0 and 1 the bound is the share itself, which rounding would miss.
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == total else min(1.0, middle + half)
    # INVARIANT: an interval holds its share, and stays between 0 and 1.
    return min(low, share), max(high, share)


def mcnemar_test(one_way: int, other_way: int, *, mid: bool = False) -> float:
    """Return the two-sided p value of McNemar's exact test on the flips in each direction.

    `mid` gives the mid-p value, which is less cautious than the exact one.
    """
    # INVARIANT: McNemar's test does not depend on which run is named first.
    fewer, flips = min(one_way, other_way), one_way + other_way
    tail = _binomial_tail(fewer, flips)
    if mid:
        tail -= _binomial_chance(fewer, flips) / 2
    return min(1.0, 2 * tail)


def mcnemar_one_sided(worse: int, better: int) -> float:
    """Return the one-sided p value of McNemar's exact test for getting worse."""
    return min(1.0, _binomial_tail(better, worse + better))


def _binomial_tail(count: int, flips: int) -> float:
    """Return the chance of at most `count` heads in so many flips of a coin."""
    return math.fsum(_binomial_chance(each, flips) for each in range(count + 1))


def _binomial_chance(count: int, flips: int) -> float:
    ways = math.lgamma(flips + 1) - math.lgamma(count + 1) - math.lgamma(flips - count + 1)
    return math.exp(ways - flips * math.log(2))


def cohens_kappa(confusion: Mapping[tuple[str, str], int]) -> float | None:
    """Return Cohen's kappa of two judges, from the counts of each pair of outcomes.

    None if chance explains everything: nothing was judged, or both always said the same.
    """
    total = sum(confusion.values())
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for (one, other), count in confusion.items():
        first[one] = first.get(one, 0) + count
        second[other] = second.get(other, 0) + count
    by_chance = sum(count * second.get(word, 0) for word, count in first.items())
    if by_chance == total * total:
        return None
    agreed = sum(count for (one, other), count in confusion.items() if one == other)
    expected = by_chance / (total * total)
    return (agreed / total - expected) / (1 - expected)
