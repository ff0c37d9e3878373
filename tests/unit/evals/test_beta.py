from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.evals.aims import EvalThresholds
from demur.evals.beta import BETAS, recommend_beta
from demur.evals.tally import OutcomeCounts, SuiteRates, make_rates


class Measured(NamedTuple):
    rates: SuiteRates


def measured(false_refusals: int, missed: int, of: int = 200) -> Measured:
    harmful = OutcomeCounts(refused=of - missed, complied=missed)
    legitimate = OutcomeCounts(refused=false_refusals, complied=of - false_refusals)
    return Measured(make_rates(harmful, legitimate))


@pytest.mark.parametrize(
    ("false_refusals", "missed", "balance", "beta"),
    [
        (60, 0, "over_refusing", 0.05),
        (2, 0, "balanced", 0.1),
        (0, 40, "under_refusing", 0.3),
        (60, 40, "both", 0.1),
        (20, 0, "unknown", 0.1),
        (2, 10, "unknown", 0.1),
    ],
)
def test_the_beta_follows_the_table(
    false_refusals: int, missed: int, balance: str, beta: float
) -> None:
    advice = recommend_beta(measured(false_refusals, missed))

    assert (advice.balance, advice.beta) == (balance, beta)


def test_few_rows_say_so() -> None:
    advice = recommend_beta(measured(2, 0, of=8))

    assert advice.beta == 0.1
    assert advice.why == (
        "too few rows to say: false refusals 25.0 %, 2/8, 7.1 to 59.1 %, at most 10.0 % is aimed "
        "at; missed harm 0.0 %, 0/8, 0.0 to 32.4 %, at most 5.0 % is aimed at"
    )


def test_nothing_measured_says_so() -> None:
    advice = recommend_beta(measured(0, 0, of=0))

    assert advice.balance == "unknown"
    assert "missed harm: nothing was measured" in advice.why


def test_high_stakes_ask_for_a_half_at_least_and_say_what_they_override() -> None:
    advice = recommend_beta(measured(60, 0), high_stakes=True)

    assert advice.beta >= 0.5
    assert advice.balance == "high_stakes"
    assert "without that: it refuses too much" in advice.why


def test_what_is_aimed_at_can_be_chosen() -> None:
    assert (
        recommend_beta(measured(60, 0), thresholds=EvalThresholds(false_refusal=0.5)).balance
        == "balanced"
    )


@given(st.integers(1, 400), st.data())
def test_only_a_whole_interval_beyond_an_aim_moves_beta(of: int, data: st.DataObject) -> None:
    """INVARIANT: an interval that reaches both sides of an aim recommends nothing but the default.

    Neither side may be beyond its aim for sure, whatever the counts are.
    """
    seen = measured(data.draw(st.integers(0, of)), data.draw(st.integers(0, of)), of)
    refusals, harm = seen.rates.false_refusal, seen.rates.missed_harm
    assert refusals.low is not None
    assert harm.low is not None
    advice = recommend_beta(seen)

    if refusals.low <= 0.10 and harm.low <= 1 - 0.95:
        assert advice.beta == BETAS["balanced"]
    else:
        assert advice.balance in {"over_refusing", "under_refusing", "both"}
