from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from gates import NOON

from demur.service.dashboard.periods import PERIODS, DEFAULT_PERIOD, LookbackPeriod, find_period


@pytest.mark.parametrize("period", PERIODS.values(), ids=str)
def test_buckets_follow_each_other_and_the_last_holds_now(period: LookbackPeriod) -> None:
    now = NOON + timedelta(minutes=1)
    buckets = period.buckets(now)

    assert len(buckets) == period.count
    assert all(one.end == following.start for one, following in pairwise(buckets))
    assert buckets[-1].start <= "2026-11-15T12:01" < buckets[-1].end
    assert datetime.fromisoformat(buckets[0].start) == period.start_time(now)


def test_the_period_before_is_as_long_where_it_is_compared() -> None:
    day, month = PERIODS["24h"], PERIODS["30d"]

    assert day.start_time(NOON) - day.compared_start(NOON) == timedelta(days=1)
    assert (
        month.start_time(NOON) == month.compared_start(NOON) == datetime(2026, 10, 17, tzinfo=UTC)
    )


def test_an_unknown_name_is_the_usual_period() -> None:
    assert find_period(None) is DEFAULT_PERIOD
    assert find_period("9y") is DEFAULT_PERIOD
    assert find_period("7d") is PERIODS["7d"]
