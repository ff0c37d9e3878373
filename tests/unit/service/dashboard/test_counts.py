from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from support.gates import NOON, Ticking, finding, gate_over, refund

from demur.model.finding import Action
from demur.service.dashboard.counts import (
    DEFAULT_PERIOD,
    PERIODS,
    WEEK,
    LookbackPeriod,
    count_period,
    find_period,
)
from demur.store.opening import open_store

RISKY = {"ticket_id": "T-1", "chargeback_risk": 0.95}


def test_a_period_is_compared_with_the_one_before() -> None:
    clock = Ticking(NOON - timedelta(hours=30))
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        gate.decide(refund(evidence=RISKY))
        clock.now = NOON - timedelta(hours=2)
        for _ in range(3):
            gate.decide(refund())
        gate.decide(refund(evidence=RISKY), tenant="other")
        now = NOON + timedelta(minutes=1)
        all_of_them = count_period(store, None, now, PERIODS["24h"])
        other = count_period(store, "other", now, PERIODS["24h"])
        week = count_period(store, None, now, WEEK)

    by = {one.outcome: one for one in all_of_them.outcomes}
    assert (all_of_them.decisions, all_of_them.before) == (4, 1)
    refused = by["refused"]
    assert (refused.count, refused.before, refused.percent) == (1, 1, 25)
    assert all_of_them.verdicts["DENY"] == 1
    assert all_of_them.series[-3:] == [4, 0, 0]
    assert all_of_them.code_counts("CHARGEBACK_RISK_BLOCK").verdicts == {"DENY": 1}
    assert all_of_them.code_counts("RCE_RISK").count == 0
    assert other.decisions == 1
    assert [(one.code, one.count, one.percent) for one in week.denied_codes()] == [
        ("CHARGEBACK_RISK_BLOCK", 2, 100)
    ]


def test_compared_periods_are_equally_long() -> None:
    clock = Ticking(NOON)
    with open_store(":memory:") as store:
        gate = gate_over(store, clock=clock)
        for hours in (24, 25):
            clock.now = NOON - timedelta(hours=hours)
            for _ in range(40):
                gate.decide(refund())
        early = count_period(store, None, NOON + timedelta(minutes=15), PERIODS["24h"])
        late = count_period(store, None, NOON + timedelta(minutes=45), PERIODS["24h"])
        week = count_period(store, None, NOON + timedelta(days=6, minutes=15), WEEK)

    # Of the hour a day before the one that runs, as much counts as has passed of this one.
    assert (early.before, late.before) == (50, 70)
    assert week.before == 50
    assert next(one for one in early.outcomes if one.outcome == "allowed").before == 50


def test_findings_are_counted_by_surface() -> None:
    with open_store(":memory:") as store:
        clock = Ticking(NOON - timedelta(hours=30))
        gate = gate_over(store, clock=clock)
        gate.decide(refund(), findings=[finding("SECRET_LEAK")])
        clock.now = NOON
        for _ in range(3):
            gate.decide(refund(), findings=[finding(), finding("PROMPT_LEAK", action=Action.WARN)])
        watched = count_period(store, None, NOON + timedelta(minutes=1), PERIODS["24h"])

    [surface] = watched.surfaces
    assert (surface.surface, surface.count, surface.percent) == ("input", 6, 100)
    assert surface.actions == {"block": 3, "warn": 3}
    assert surface.codes == [("PROMPT_LEAK", 3), ("RCE_RISK", 3)]


def test_many_tenants_are_counted_together() -> None:
    with open_store(":memory:") as store:
        gate = gate_over(store)
        for number in range(12):
            gate.decide(refund(), tenant=f"t{number}")
        watched = count_period(store, None, NOON + timedelta(minutes=1), PERIODS["24h"])

    assert watched.decisions == 12


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
