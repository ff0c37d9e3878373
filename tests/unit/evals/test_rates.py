import pytest

from demur.errors import InputError
from demur.evals.rates import (
    cohens_kappa,
    mcnemar_test,
    mcnemar_one_sided,
    make_rate,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        # Textbook values of the score interval, to four places.
        (8, 10, 0.4902, 0.9433),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (95, 100, 0.8882, 0.9785),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_the_interval_is_wilsons(hits: int, of: int, low: float, high: float) -> None:
    assert wilson_interval(hits, of) == pytest.approx((low, high), abs=1e-4)


def test_more_confidence_makes_a_wider_interval() -> None:
    narrow, wide = wilson_interval(5, 10, 0.8), wilson_interval(5, 10, 0.99)

    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("confidence", [0, 1, -1, 2])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        wilson_interval(1, 2, confidence)


def test_of_nothing_there_is_no_share() -> None:
    rate = make_rate(0, 0)

    assert (rate.value, rate.low, rate.high) == (None, None, None)


@pytest.mark.parametrize(("hits", "of"), [(2, 1), (-1, 1)])
def test_there_are_not_more_hits_than_rows(hits: int, of: int) -> None:
    with pytest.raises(InputError, match="not between 0 and the total"):
        make_rate(hits, of)


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [(0, 0, 1.0), (0, 1, 1.0), (0, 5, 0.0625), (1, 9, 22 / 1024), (10, 10, 1.0)],
)
def test_mcnemar_is_the_exact_binomial_test(one: int, other: int, p: float) -> None:
    assert mcnemar_test(one, other) == pytest.approx(p)


def test_mid_p_counts_half_of_what_was_seen() -> None:
    # Of five flips none goes one way: 2 * (1/32 - 1/64).
    assert mcnemar_test(0, 5, mid=True) == pytest.approx(1 / 32)
    assert mcnemar_test(4, 4, mid=True) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("worse", "better", "p"), [(5, 0, 1 / 32), (0, 5, 1.0), (0, 0, 1.0), (9, 1, 11 / 1024)]
)
def test_the_one_sided_test_asks_for_at_least_so_much_worse(
    worse: int, better: int, p: float
) -> None:
    assert mcnemar_one_sided(worse, better) == pytest.approx(p)


def test_a_hundred_thousand_flips_do_not_overflow() -> None:
    assert mcnemar_test(50_000, 50_000) == pytest.approx(1.0)
    assert mcnemar_one_sided(60_000, 40_000) < 1e-12


def test_kappa_takes_off_what_chance_explains() -> None:
    # The usual example: 50 cases, 20 + 15 agreed.
    confusion = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}

    assert cohens_kappa(confusion) == pytest.approx(0.4)
    assert cohens_kappa({("a", "a"): 3, ("b", "b"): 2}) == pytest.approx(1.0)
    assert cohens_kappa({("a", "b"): 1, ("b", "a"): 1}) == pytest.approx(-1.0)


@pytest.mark.parametrize("confusion", [{}, {("a", "a"): 7}])
def test_where_all_is_one_thing_there_is_no_kappa(confusion: dict[tuple[str, str], int]) -> None:
    assert cohens_kappa(confusion) is None
