from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from gates import NOON

from demur.service.dashboard.periods import PERIODS, USUAL, Period, period_named


@pytest.mark.parametrize("period", PERIODS.values(), ids=str)
def test_buckets_follow_each_other_and_the_last_holds_now(period: Period) -> None:
    now = NOON + timedelta(minutes=1)
    buckets = period.buckets(now)

    assert len(buckets) == period.count
    assert all(one.end == following.start for one, following in pairwise(buckets))
    assert buckets[-1].start <= "2026-11-15T12:01" < buckets[-1].end
    assert datetime.fromisoformat(buckets[0].start) == period.start(now)


def test_the_period_before_is_as_long_where_it_is_compared() -> None:
    day, month = PERIODS["24h"], PERIODS["30d"]

    assert day.start(NOON) - day.start_before(NOON) == timedelta(days=1)
    assert month.start(NOON) == month.start_before(NOON) == datetime(2026, 10, 17, tzinfo=UTC)


def test_an_unknown_name_is_the_usual_period() -> None:
    assert period_named(None) is USUAL
    assert period_named("9y") is USUAL
    assert period_named("7d") is PERIODS["7d"]
